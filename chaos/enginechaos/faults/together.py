"""Several faults at once, as one: a receiver that is down while an engine hangs."""

from __future__ import annotations

from collections.abc import Sequence

from enginechaos.actions import Action
from enginechaos.faults.base import Evidence, Fault
from enginechaos.target import Target


class Together(Fault):
    """`faults`, induced in their order and taken back in the reverse one."""

    def __init__(self, *faults: Fault):
        self.faults = faults

    @property
    def name(self) -> str:
        return " and ".join(fault.name for fault in self.faults)

    def blast_radius(self, target: Target) -> str:
        return "; ".join(fault.blast_radius(target) for fault in self.faults)

    def undo(self, target: Target) -> Sequence[Action]:
        return [action for fault in self.faults for action in fault.undo(target)]

    def inject(self, target: Target) -> None:
        for fault in self.faults:
            fault.inject(target)

    def verify(self, target: Target) -> Evidence:
        found = [fault.verify(target) for fault in self.faults]
        return Evidence(all(each.found for each in found), "; ".join(each.what for each in found))

    def retract(self, target: Target) -> None:
        for fault in reversed(self.faults):
            fault.retract(target)
