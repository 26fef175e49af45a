"""What pages and API ask of the notifications' side: who is told of an alert, and why not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from enginewatch.model import Alert, Millis
from enginewatch.notify.mute import Muting
from enginewatch.notify.pipeline import Pipeline
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

    @property
    def silences(self) -> Silences: ...

    async def keep(self) -> None:
        """Save changes of the silences, and tell of what they no longer mute.

        Raises EnginewatchError when they can't be saved; they are in force all the same.
        """
        ...


@dataclass(frozen=True)
class PipelineDesk:
    """The desk of a daemon. `save` is `keep`, done by whoever owns the pipeline."""

    pipeline: Pipeline
    all_alerts: Callable[[], Iterable[Alert]]
    own_url: Callable[[], str]
    save: Callable[[], Awaitable[None]]

    def alerts(self) -> Iterable[Alert]:
        return self.all_alerts()

    def muting(self, alert: Alert, now: Millis) -> Muting:
        return self.pipeline.muting(alert, now)

    def tree(self) -> Route:
        return self.pipeline.plan.tree

    def receivers(self) -> Sequence[str]:
        return tuple(self.pipeline.plan.integrations)

    def external_url(self) -> str:
        return self.own_url()

    def deliveries(self, alert: Alert) -> Iterator[Delivery]:
        for group in self.pipeline.groups():
            if alert.labels in group.members:
                for lane in group.lanes.values():
                    detail = lane.receipt.detail if lane.receipt else ""
                    yield Delivery(lane.receiver, lane.delivered_at, detail, lane.attempts)

    @property
    def silences(self) -> Silences:
        return self.pipeline.mutes.silences

    async def keep(self) -> None:
        await self.save()
