"""What a fault is: it can be taken back before it exists, and it can be proved.

The order is the suite's, and the same for every fault:

1. `undo(target)` tells how to take it back. That is written to disk.
2. `inject(target)` does it, from outside: signals, files, requests, relaunches.
3. `verify(target)` looks for evidence that it took effect, again and again for `verify_within`
   seconds. Never at what the watchdog says: it is the watchdog that is on trial.
4. `retract(target)`, then the actions of the undo, the last first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from enginechaos.actions import Action
from enginechaos.target import Target


class Evidence(NamedTuple):
    """Whether a fault took effect, and by what that is known."""

    found: bool
    what: str


class Fault(ABC):
    """One fault, used once. A class without `undo`, `inject` and `verify` can't be made one."""

    verify_within: ClassVar[float] = 10.0
    """Seconds until a fault without evidence is INCONCLUSIVE."""
    harmless: ClassVar[bool] = False
    """Whether nothing is broken, so that the target's limit of a fault's time does not count."""

    @property
    def name(self) -> str:
        """How reports call it: `StoppedRank` is `stopped rank`."""
        letters = (f" {c.lower()}" if c.isupper() else c for c in type(self).__name__)
        return "".join(letters).strip()

    def blast_radius(self, target: Target) -> str:
        """Whom it hurts, for a dry run; the target may be looked at and not touched."""
        return f"all requests to {target.deployment}"

    @abstractmethod
    def undo(self, target: Target) -> Sequence[Action]:
        """What takes it back, harmless if `inject` never came about. Nothing is touched yet."""

    @abstractmethod
    def inject(self, target: Target) -> None:
        """Bring it about. Raises ChaosError where that can't be done."""

    @abstractmethod
    def verify(self, target: Target) -> Evidence:
        """Whether it has taken effect by now, by evidence that is not the watchdog's."""

    def retract(self, target: Target) -> None:  # noqa: B027 - most faults hold nothing here
        """End what lives in this process only, such as requests; may be called twice."""


class NoFault(Fault):
    """Nothing at all: the control that shows what the load alone does not set off."""

    harmless: ClassVar[bool] = True

    def blast_radius(self, target: Target) -> str:
        return "none: the load alone"

    def undo(self, target: Target) -> Sequence[Action]:
        return []

    def inject(self, target: Target) -> None:
        pass

    def verify(self, target: Target) -> Evidence:
        return Evidence(True, "nothing was done")
