"""What an evaluation of the rules changed, and how the rules stand after it.

Changes are what receivers and the journal see, status is what the API shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from enginewatch.alerting.rules import Group, Rule
from enginewatch.model import Alert, Millis


class ChangeKind(StrEnum):
    """What happened to an alert; each evaluation reports at most one change of an alert."""

    PENDING = "pending"
    """The expression holds, for less than `for` as yet."""
    DROPPED = "dropped"
    """A pending alert cleared before it fired; nobody was told of it, and nobody need be."""
    FIRING = "firing"
    """An incident begins."""
    RESOLVED = "resolved"
    """An incident ends."""
    DEMOTED = "demoted"
    """Firing before, pending now: the rule's `for` was raised. To receivers the incident ends."""
    UNKNOWN = "unknown"
    """The inputs of an active alert vanished: it stays as it is, marked."""
    KNOWN = "known"
    """The inputs are back, and the alert goes on."""


@dataclass(frozen=True, slots=True)
class AlertChange:
    """One alert's change at one evaluation; `alert` is how it stands afterwards.

    `reason` says in a few words what the kind alone does not: why an alert
    resolved although its expression was never seen to be false.
    """

    kind: ChangeKind
    alert: Alert
    at: Millis
    reason: str = ""

    @property
    def begins_incident(self) -> bool:
        return self.kind is ChangeKind.FIRING

    @property
    def ends_incident(self) -> bool:
        return self.kind in (ChangeKind.RESOLVED, ChangeKind.DEMOTED)


@dataclass(frozen=True, slots=True)
class RuleFailure:
    """A rule that could not be evaluated; `message` says why, in one sentence."""

    rule: Rule
    message: str


@dataclass(frozen=True, slots=True)
class GroupResult:
    """One evaluation of a group.

    `samples` were written; `seconds` is what it took; `missed` counts the
    evaluations that should have been since the one before; `jumped` is how far the
    wall clock had moved beyond one interval, either way, when that was too far to
    be counted as time in which the alerts held.
    """

    group: Group
    at: Millis
    changes: tuple[AlertChange, ...] = ()
    samples: int = 0
    failures: tuple[RuleFailure, ...] = ()
    seconds: float = 0.0
    missed: int = 0
    jumped: Millis = 0


class Health(StrEnum):
    """As `/api/v1/rules` of Prometheus words it."""

    UNKNOWN = "unknown"
    OK = "ok"
    FAILED = "err"


@dataclass(frozen=True, slots=True)
class RuleStatus:
    """A rule after its last evaluation, which is None before the first.

    `alerts` are those pending and firing now.
    """

    rule: Rule
    health: Health = Health.UNKNOWN
    last_error: str = ""
    evaluated_at: Millis | None = None
    seconds: float = 0.0
    alerts: tuple[Alert, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """A group after its last evaluation; `interval` is the one in force."""

    group: Group
    interval: Millis
    rules: tuple[RuleStatus, ...]
    evaluated_at: Millis | None = None
    seconds: float = 0.0
    missed: int = 0
