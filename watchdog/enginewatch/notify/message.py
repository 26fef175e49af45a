"""A notification: one group's alerts, told to one receiver at one time; and the answer to it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Protocol

from enginewatch.errors import EnginewatchError
from enginewatch.model import Alert, AlertState, Labels, Millis

NO_STATE: Final[Mapping[str, str]] = MappingProxyType({})


class Reason(StrEnum):
    """Why a group is told of, as Alertmanager's dedup stage names it."""

    FIRST = "first"
    """Nobody knows of this incident yet."""
    NEW_ALERTS = "new_alerts"
    """Alerts fire that the last notification did not have, or did not have firing."""
    NEW_RESOLVED = "new_resolved"
    """Some of the alerts last told have resolved, and others still fire."""
    ALL_RESOLVED = "all_resolved"
    """The incident is over: the last notification of its group, until it fires again."""
    REPEAT = "repeat"
    """Nothing changed; `repeat_interval` has passed since the last delivery."""
    RESEND = "resend"
    """Nothing changed; the receiver, an Alertmanager, would take it for resolved otherwise."""


@dataclass(frozen=True, slots=True)
class Notification:
    """`alerts` are firing or resolved, never pending; `group_labels` is what they share.

    `group_key` names the incident's group for as long as the routes are written
    as they are, over restarts too. `id` is this very notification's, the same at
    each attempt. `at` is when it was decided on, in ms. `maybe_repeat` says that an
    earlier attempt may have arrived: it timed out, or the daemon ended during it.
    """

    receiver: str
    group_key: str
    group_labels: Labels
    alerts: tuple[Alert, ...]
    external_url: str = ""
    reason: Reason = Reason.FIRST
    at: Millis = 0
    id: str = ""
    maybe_repeat: bool = False

    @property
    def dedup_key(self) -> str:
        """What providers tell incidents apart by: 40 characters, and the same from first to last.

        It depends on nothing that a lost disk could lose, so an incident that is
        told again after that is still the same one.
        """
        return hashlib.sha256(self.group_key.encode()).hexdigest()[:40]

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


@dataclass(frozen=True, slots=True)
class Receipt:
    """A provider's answer to a delivered notification.

    `state` is what the receiver wants back when it next tells of the same
    incident (Slack's channel and message timestamp): it is kept with the group,
    over restarts, until the incident's resolve is delivered. `detail` is for
    people: a few words of the answer, without secrets.
    """

    state: Mapping[str, str] = field(default_factory=lambda: NO_STATE)
    detail: str = ""


class FailureReason(StrEnum):
    """Kinds of failed deliveries; a label of `enginewatch_notifications_failed_total`."""

    REJECTED = "rejected"
    """The provider understood and refused: 400, 403, 404, Slack's `ok: false`."""
    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    CONFIGURATION = "configuration"
    """A secret that can't be read, a URL that is none."""
    EXPIRED = "expired"
    """Given up after retrying for too long, or overtaken by newer news of its group."""
    INTERNAL = "internal"
    """A defect of the receiver's code."""
    OTHER = "other"


class DeliveryError(EnginewatchError):
    """A receiver did not take a notification.

    `retryable` tells whether another attempt can succeed; `retry_after` is how
    long the provider asked to be left alone, in ms. `maybe_delivered` tells whether
    the provider may have taken it all the same: the answer was lost, not the
    request. The text holds no secret: it names the receiver, never its URL or token.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str = "",
        hint: str = "",
        retryable: bool,
        retry_after: Millis | None = None,
        reason: FailureReason = FailureReason.OTHER,
        maybe_delivered: bool = False,
    ):
        super().__init__(what, where=where, hint=hint)
        self.retryable = retryable
        self.retry_after = retry_after
        self.reason = reason
        self.maybe_delivered = maybe_delivered


class Receiver(Protocol):
    """One way to reach somebody.

    `name` is stable over restarts: `on-call/slack[0]`. For one group, calls of
    `send` never overlap and keep the order of events; different groups may be sent
    at the same time.
    """

    @property
    def name(self) -> str: ...

    @property
    def send_resolved(self) -> bool: ...

    @property
    def pace(self) -> Millis:
        """The least time between the beginnings of two calls of `send`; 0 where there is none."""
        ...

    async def send(self, notification: Notification, previous: Receipt | None = None, /) -> Receipt:
        """Deliver, or raise `DeliveryError`; one attempt, retrying is the caller's.

        `previous` is the receipt of the incident's last delivered notification,
        None for its first. Ends in bounded time: every request has a timeout.
        """
        ...

    async def close(self) -> None:
        """Let go of connections; nothing is sent afterwards."""
        ...
