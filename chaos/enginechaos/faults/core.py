"""The engine core is stopped: its server answers /health, and no request goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from enginechaos.actions import Action, Signal
from enginechaos.errors import TargetError
from enginechaos.faults.base import Evidence, Fault
from enginechaos.processes import Process
from enginechaos.target import Target


@dataclass
class StoppedCore(Fault):
    """SIGSTOP of the engine core; the evidence is the state T of that very process in /proc."""

    _stopped: Process | None = field(default=None, init=False)

    def blast_radius(self, target: Target) -> str:
        return f"all requests to {target.deployment} hang until the undo"

    def undo(self, target: Target) -> Sequence[Action]:
        self._stopped = target.process("engine")
        return [Signal(self._stopped, "CONT", target.actor)]

    def inject(self, target: Target) -> None:
        if not target.actor.signal(self._found(), "STOP"):
            raise TargetError(f"{self._found()} is gone")

    def verify(self, target: Target) -> Evidence:
        state = target.actor.state(self._found())
        return Evidence(state == "T", f"/proc says {state or 'gone'} of {self._found()}")

    def _found(self) -> Process:
        if self._stopped is None:
            raise TargetError("undo() was not asked for before the core was stopped")
        return self._stopped
