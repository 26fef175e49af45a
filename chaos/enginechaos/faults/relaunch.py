"""Faults that cost the engine its life: their undo is a new launch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from enginechaos.actions import Action, EndsWithRun
from enginechaos.errors import TargetError
from enginechaos.faults.base import Fault
from enginechaos.target import Target


@dataclass
class EndsInRelaunch(Fault):
    """Only for engines that the suite starts. `inject` calls `owe` before it does harm."""

    spared: ClassVar[str]
    """What is not done to an engine that can't be launched anew: `it is not killed`."""
    verdict: ClassVar[str]
    """To be left out of such a target's may_induce."""
    _owes_a_launch: bool = field(default=False, init=False)

    def undo(self, target: Target) -> Sequence[Action]:
        if target.relauncher is None:
            raise TargetError(
                f"{target.name} can't be launched anew from here, so {self.spared}",
                hint="only targets that the suite starts can; "
                f"leave {self.verdict} out of may_induce",
            )
        # After a crash of the suite there is nothing to launch: its engines end with it.
        return [EndsWithRun(f"{target.name}, which the suite started,")]

    def owe(self) -> None:
        """From now on the undo is a launch."""
        self._owes_a_launch = True

    def retract(self, target: Target) -> None:
        if self._owes_a_launch:
            self._owes_a_launch = False
            target.relaunch()
