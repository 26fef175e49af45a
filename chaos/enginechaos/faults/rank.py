"""A tensor-parallel rank is stopped, and the others wait for it; or killed: the engine ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from enginechaos.actions import Action
from enginechaos.errors import TargetError
from enginechaos.faults import looks
from enginechaos.faults.base import Evidence
from enginechaos.faults.relaunch import EndsInRelaunch
from enginechaos.faults.stopped import StoppedProcess
from enginechaos.processes import GONE, Process
from enginechaos.target import Target


@dataclass
class StoppedRank(StoppedProcess):
    """SIGSTOP of rank `rank`, by its number. `of` stops a rank of another engine instead."""

    rank: int = 1
    of: Target | None = None

    def blast_radius(self, target: Target) -> str:
        whom = self.whom(target)
        return (
            f"rank {self.rank} of {whom.deployment} ({whom.actor.place}) does not run: "
            "all its requests hang until the undo"
        )

    def whom(self, target: Target) -> Target:
        return self.of or target

    def find(self, target: Target) -> Process:
        return _rank_of(target, self.rank)


@dataclass
class KilledRank(EndsInRelaunch):
    """SIGKILL of rank `rank`: its engine ends, and has to be launched anew.

    The evidence is that the rank is gone and nobody answers at the engine's address.
    """

    rank: int = 1
    verify_within: ClassVar[float] = 20.0
    spared: ClassVar[str] = "it is not killed"
    verdict: ClassVar[str] = "engine_dead"
    _killed: Process | None = field(default=None, init=False)

    def blast_radius(self, target: Target) -> str:
        return (
            f"rank {self.rank} of {target.deployment} ({target.actor.place}) is killed: the engine "
            "ends with all its requests, and is launched anew in the undo"
        )

    def undo(self, target: Target) -> Sequence[Action]:
        promised = super().undo(target)
        self._killed = _rank_of(target, self.rank)
        return promised

    def inject(self, target: Target) -> None:
        if self._killed is None:
            raise TargetError("undo() was not asked for before the rank was killed")
        self.owe()
        if not target.actor.signal(self._killed, "KILL"):
            raise TargetError(f"{self._killed} is gone")

    def verify(self, target: Target) -> Evidence:
        if self._killed is None or target.actor.state(self._killed) not in GONE:
            return Evidence(False, f"{self._killed} still runs")
        said = looks.answer_of(target.url)
        return Evidence(said == "", f"{self._killed} is gone; {target.url} {said or 'is closed'}")


def _rank_of(target: Target, rank: int) -> Process:
    ranks = target.ranks()
    if rank >= len(ranks):
        raise TargetError(f"{target.name} has {len(ranks)} ranks, and none is rank {rank}")
    return ranks[rank]
