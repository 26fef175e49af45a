"""Acts on processes of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from enginechaos.actors.base import Done
from enginechaos.errors import TargetError
from enginechaos.processes import Process, processes, stat


@dataclass(frozen=True)
class Local:
    place = "this machine"

    def spec(self) -> Mapping[str, Any]:
        return {"kind": "local"}

    def run(self, argv: Sequence[str], within: float = 20.0) -> Done:
        try:
            done = subprocess.run(  # noqa: S603 - running what it is told is what an actor is for
                list(argv),
                capture_output=True,
                text=True,
                timeout=within,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            raise TargetError(f"{argv[0]} did not end within {within:g} s") from None
        except OSError as failure:
            raise TargetError(f"can't run {argv[0]}: {failure.strerror}") from None
        return Done(done.returncode, done.stdout, done.stderr)

    def processes(self) -> Sequence[Process]:
        return processes()

    def state(self, process: Process) -> str:
        found = stat(process.pid)
        return found.state if found is not None and found.started == process.started else ""

    def signal(self, process: Process, name: str) -> bool:
        if not self.state(process):
            return False
        try:
            os.kill(process.pid, signal.Signals[f"SIG{name}"])
        except ProcessLookupError:
            return False
        except PermissionError:
            raise TargetError(
                f"not allowed to signal {process}", hint="run the suite as the engine's user"
            ) from None
        return True
