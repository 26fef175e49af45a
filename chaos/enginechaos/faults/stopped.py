"""A process of an engine is stopped, and lives on as if nothing were."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

from enginechaos.actions import Action, Signal
from enginechaos.errors import TargetError
from enginechaos.faults.base import Evidence, Fault
from enginechaos.processes import Process
from enginechaos.target import Target


@dataclass
class StoppedProcess(Fault):
    """SIGSTOP of the process that `find` names; the evidence is its state T in /proc."""

    _stopped: Process | None = field(default=None, init=False)

    @abstractmethod
    def find(self, target: Target) -> Process:
        """The process to stop. Raises TargetError where there is none."""

    def whom(self, target: Target) -> Target:
        """The engine it is of."""
        return target

    def undo(self, target: Target) -> Sequence[Action]:
        whom = self.whom(target)
        self._stopped = self.find(whom)
        return [Signal(self._stopped, "CONT", whom.actor)]

    def inject(self, target: Target) -> None:
        if not self.whom(target).actor.signal(self._found(), "STOP"):
            raise TargetError(f"{self._found()} is gone")

    def verify(self, target: Target) -> Evidence:
        state = self.whom(target).actor.state(self._found())
        return Evidence(state == "T", f"/proc says {state or 'gone'} of {self._found()}")

    def _found(self) -> Process:
        if self._stopped is None:
            raise TargetError("undo() was not asked for before it was stopped")
        return self._stopped
