"""The engine core is stopped: its server answers /health, and no request goes on."""

from __future__ import annotations

from dataclasses import dataclass

from enginechaos.faults.stopped import StoppedProcess
from enginechaos.processes import Process
from enginechaos.target import Target


@dataclass
class StoppedCore(StoppedProcess):
    """SIGSTOP of the engine core."""

    def blast_radius(self, target: Target) -> str:
        return f"all requests to {target.deployment} hang until the undo"

    def find(self, target: Target) -> Process:
        return target.process("engine")
