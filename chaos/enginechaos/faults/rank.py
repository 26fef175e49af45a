"""A tensor-parallel rank is stopped, and the others wait for it; or killed: the engine ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import httpx

from enginechaos.actions import Action, EndsWithRun, Signal
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
        self._stopped = _rank_of(whom, self.rank)
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


@dataclass
class KilledRank(Fault):
    """SIGKILL of rank `rank`: its engine ends, and has to be launched anew.

    The evidence is that the rank is gone and nobody answers at the engine's address.
    """

    rank: int = 1
    verify_within: ClassVar[float] = 20.0
    _killed: Process | None = field(default=None, init=False)
    _owes_a_launch: bool = field(default=False, init=False)

    def blast_radius(self, target: Target) -> str:
        return (
            f"rank {self.rank} of {target.deployment} ({target.actor.place}) is killed: the engine "
            "ends with all its requests, and is launched anew in the undo"
        )

    def undo(self, target: Target) -> Sequence[Action]:
        if target.relauncher is None:
            raise TargetError(
                f"{target.name} can't be launched anew from here, so it is not killed",
                hint="only targets that the suite starts can; leave engine_dead out of may_induce",
            )
        self._killed = _rank_of(target, self.rank)
        # After a crash of the suite there is nothing to launch: its engines end with it.
        return [EndsWithRun(f"{target.name}, which the suite started,")]

    def inject(self, target: Target) -> None:
        if self._killed is None:
            raise TargetError("undo() was not asked for before the rank was killed")
        self._owes_a_launch = True
        if not target.actor.signal(self._killed, "KILL"):
            raise TargetError(f"{self._killed} is gone")

    def verify(self, target: Target) -> Evidence:
        if self._killed is None or target.actor.state(self._killed) not in ("", "Z", "X"):
            return Evidence(False, f"{self._killed} still runs")
        said = answer_of(target.url)
        return Evidence(said == "", f"{self._killed} is gone; {target.url} {said or 'is closed'}")

    def retract(self, target: Target) -> None:
        if self._owes_a_launch:
            self._owes_a_launch = False
            target.relaunch()


def _rank_of(target: Target, rank: int) -> Process:
    ranks = target.ranks()
    if rank >= len(ranks):
        raise TargetError(f"{target.name} has {len(ranks)} ranks, and none is rank {rank}")
    return ranks[rank]


def answer_of(url: str) -> str:
    """What /health answers, such as `answers 200`; empty when nobody listens there."""
    try:
        return f"answers {httpx.get(f'{url}/health', timeout=2, trust_env=False).status_code}"
    except httpx.ConnectError:
        return ""
    except httpx.HTTPError as failure:
        return f"fails: {failure or type(failure).__name__}"
