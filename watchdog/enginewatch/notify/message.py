"""A notification: the alerts of one group, told to one receiver at one time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from enginewatch.errors import EnginewatchError
from enginewatch.model import Alert, AlertState, Labels, Millis


@dataclass(frozen=True, slots=True)
class Notification:
    """`alerts` are firing or resolved, never pending; `group_labels` is what they share."""

    receiver: str
    group_key: str
    group_labels: Labels
    alerts: tuple[Alert, ...]
    external_url: str = ""

    @property
    def firing(self) -> tuple[Alert, ...]:
        return tuple(a for a in self.alerts if a.state is AlertState.FIRING)

    @property
    def resolved(self) -> tuple[Alert, ...]:
        return tuple(a for a in self.alerts if a.state is AlertState.RESOLVED)

    @property
    def status(self) -> AlertState:
        """Firing while any alert of the group fires."""
        return AlertState.FIRING if self.firing else AlertState.RESOLVED

    @property
    def common_labels(self) -> dict[str, str]:
        return common(a.labels for a in self.alerts)

    @property
    def common_annotations(self) -> dict[str, str]:
        return common(a.annotations for a in self.alerts)


def common(maps: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """The pairs that stand in every one of `maps`."""
    rest = iter(maps)
    shared = dict(next(rest, {}))
    for other in rest:
        shared = {k: v for k, v in shared.items() if other.get(k) == v}
    return shared


class DeliveryError(EnginewatchError):
    """A receiver did not take a notification.

    `retryable` tells whether another attempt can succeed; `retry_after` is how
    long the provider asked to be left alone, in ms. The text holds no secret: it
    names the receiver, never its URL or token.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str = "",
        hint: str = "",
        retryable: bool,
        retry_after: Millis | None = None,
    ):
        super().__init__(what, where=where, hint=hint)
        self.retryable = retryable
        self.retry_after = retry_after


class Receiver(Protocol):
    """One way to reach somebody. `send` returns once the notification is delivered."""

    @property
    def name(self) -> str: ...

    @property
    def send_resolved(self) -> bool: ...

    async def send(self, notification: Notification) -> None:
        """Deliver, or raise `DeliveryError`."""
        ...
