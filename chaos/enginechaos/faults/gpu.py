"""NVML does not come back from a call: the driver hangs. Of simulated GPUs only.

`python -m enginechaos.faults.gpu FILE` takes it back.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from enginechaos.actions import Action, Command
from enginechaos.errors import TargetError
from enginechaos.faults.base import Evidence, Fault
from enginechaos.sim.errors import SimError
from enginechaos.sim.gpu import GpuFile
from enginechaos.target import Target

_PATIENCE = 3.0
"""Seconds for one reading of all GPUs: it takes a tenth of one."""


class HungDriver(Fault):
    """Every call into NVML, from now on, waits for ever.

    The evidence is a reader of our own: a process that is asked for one reading and does not end.
    """

    verify_within: ClassVar[float] = 20.0

    def blast_radius(self, target: Target) -> str:
        return f"nobody can read the GPUs of {target.deployment}; its requests are served"

    def undo(self, target: Target) -> Sequence[Action]:
        file = str(_gpu_file(target).absolute())
        return [Command((sys.executable, "-m", "enginechaos.faults.gpu", file))]

    def inject(self, target: Target) -> None:
        try:
            with GpuFile(_gpu_file(target)).edit() as found:
                found["hang"] = True
        except SimError as failure:
            raise TargetError(failure.what, where=failure.where) from None

    def verify(self, target: Target) -> Evidence:
        reader = [sys.executable, "-m", "enginewatch.nvml", "--rounds", "1"]
        try:
            subprocess.run(  # noqa: S603 - our own command
                [*reader, "--simulation", str(_gpu_file(target))],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Evidence(True, f"a reader of its own had no reading after {_PATIENCE:g} s")
        return Evidence(False, "a reader of its own was answered")


def _gpu_file(target: Target) -> Path:
    if target.gpu_file is None:
        raise TargetError(
            f"{target.name} has real GPUs, whose driver can't be made to hang",
            hint="leave gpu_fault out of may_induce",
        )
    return target.gpu_file


def main(arguments: Sequence[str]) -> int:
    """Let the driver of a gpu_file answer again; harmless where it does, or is gone."""
    path = Path(arguments[0])
    if not path.exists():
        return 0
    try:
        with GpuFile(path).edit() as found:
            found.pop("hang", None)
    except SimError as failure:
        print(failure, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
