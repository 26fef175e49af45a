"""What an evaluation of the rules changed: the events that receivers and the journal see."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

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
