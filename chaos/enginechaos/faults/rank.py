"""One tensor-parallel rank is stopped: the others wait for it in their next collective."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from enginechaos.actions import Action, Signal
from enginechaos.errors import TargetError
from enginechaos.faults.base import Evidence, Fault
from enginechaos.processes import Process
from enginechaos.target import Target


@dataclass
class StoppedRank(Fault):
    """SIGSTOP of rank `rank`, by its number. `of` stops a rank of another engine instead.

    The evidence is the state T of that very process in /proc.
    """

    rank: int = 1
    of: Target | None = None
    _stopped: Process | None = field(default=None, init=False)

    def blast_radius(self, target: Target) -> str:
        whom = self.of or target
        return (
            f"rank {self.rank} of {whom.deployment} ({whom.actor.place}) does not run: "
            "all its requests hang until the undo"
        )

    def undo(self, target: Target) -> Sequence[Action]:
        whom = self.of or target
        ranks = whom.ranks()
        if self.rank >= len(ranks):
            raise TargetError(f"{whom.name} has {len(ranks)} ranks, and none is rank {self.rank}")
        self._stopped = ranks[self.rank]
        return [Signal(self._stopped, "CONT", whom.actor)]

    def inject(self, target: Target) -> None:
        whom = self.of or target
        if not whom.actor.signal(self._found(), "STOP"):
            raise TargetError(f"{self._found()} is gone")

    def verify(self, target: Target) -> Evidence:
        whom = self.of or target
        state = whom.actor.state(self._found())
        return Evidence(state == "T", f"/proc says {state or 'gone'} of {self._found()}")

    def _found(self) -> Process:
        if self._stopped is None:
            raise TargetError("undo() was not asked for before the rank was stopped")
        return self._stopped
