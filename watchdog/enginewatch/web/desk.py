"""What pages and API ask of the notifications' side: who is told of an alert, and why not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from enginewatch.model import Alert, Millis
from enginewatch.notify.mute import Muting
from enginewatch.notify.outbox import Entry
from enginewatch.notify.route import Route
from enginewatch.notify.silence import Silences


@dataclass(frozen=True, slots=True)
class Delivery:
    """How telling one receiver of an alert's group stands.

    `at` is when it last took a notification, and `detail` what it answered.
    `attempts` have failed since.
    """

    receiver: str
    at: Millis | None = None
    detail: str = ""
    attempts: int = 0


class Desk(Protocol):
    """All of it is called in the event loop's thread."""

    def alerts(self) -> Iterable[Alert]:
        """All that the rules have, resolved ones for as long as they are kept."""
        ...

    def muting(self, alert: Alert, now: Millis) -> Muting: ...

    def tree(self) -> Route:
        """The routes, from their root."""
        ...

    def receivers(self) -> Sequence[str]:
        """The names of all that are configured."""
        ...

    def external_url(self) -> str:
        """The daemon's own URL, as people reach it."""
        ...

    def deliveries(self, alert: Alert) -> Iterable[Delivery]: ...

    def history(self, alert: Alert) -> Iterable[Entry]:
        """The notifications of the alert's groups since it fired, the latest first."""
        ...

    @property
    def silences(self) -> Silences: ...

    async def keep(self) -> None:
        """Save changes of the silences, and tell of what they no longer mute.

        Raises EnginewatchError when they can't be saved; they are in force all the same.
        """
        ...
