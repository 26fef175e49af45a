"""Another process takes what an engine has left of a GPU, until a larger step than before finds no
more. Of simulated GPUs only.

`python -m enginechaos.faults.memory FILE --leave-gib X` takes it once it reads a line.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from enginechaos.actions import Action, End
from enginechaos.errors import TargetError
from enginechaos.faults import looks
from enginechaos.faults.base import Evidence, Fault
from enginechaos.load import Load, Mix
from enginechaos.processes import Process, process
from enginechaos.sim import gpu
from enginechaos.sim.memory import GIB
from enginechaos.target import Target


@dataclass
class MemoryBallast(Fault):
    """A process holds all of GPU 0 but `leave_gib`. The engine serves on, until `outgrow`.

    The evidence is the ballast's claim among what the GPU says; and of the end, `crashed`: the
    engine's own log, and nobody who answers. The engine is launched anew in the undo.
    """

    load: Load
    leave_gib: float = 0.03
    clients: int = 24
    _ballast: subprocess.Popen[str] | None = field(default=None, init=False)
    _held: Process | None = field(default=None, init=False)
    _log_from: int = field(default=0, init=False)

    verify_within: ClassVar[float] = 20.0

    def blast_radius(self, target: Target) -> str:
        return (
            f"all of GPU 0 of {target.deployment} but {self.leave_gib:g} GiB is taken, and "
            f"{self.clients} clients more make a batch for which that is too little: the engine "
            "ends with all its requests, and is launched anew in the undo"
        )

    def undo(self, target: Target) -> Sequence[Action]:
        if target.gpu_file is None or target.relauncher is None or not target.log_files:
            raise TargetError(
                f"{target.name} is not an engine on simulated GPUs that the suite can launch anew",
                hint="leave cuda_oom out of may_induce",
            )
        # It waits for a word, and ends if this process does: so far nothing is held.
        # This package has imported the module before it is run, which runpy warns of.
        quiet = ("-W", "ignore::RuntimeWarning:runpy")
        command = [sys.executable, *quiet, "-m", __name__, str(target.gpu_file)]
        self._ballast = subprocess.Popen(  # noqa: S603 - our own command
            [*command, "--leave-gib", str(self.leave_gib)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._held = process(self._ballast.pid)
        if self._held is None:
            raise TargetError("the ballast ended at once")
        return [End(self._held)]

    def inject(self, target: Target) -> None:
        if self._ballast is None or self._ballast.stdin is None or self._ballast.stdout is None:
            raise TargetError("undo() was not asked for before the memory was taken")
        self._log_from = looks.log_of(target).stat().st_size
        self._ballast.stdin.write("\n")
        self._ballast.stdin.flush()
        if not self._ballast.stdout.readline():
            raise TargetError("the ballast found no memory to take", where=str(target.gpu_file))

    def verify(self, target: Target) -> Evidence:
        card = looks.card(target)
        ours = card.held.get(self._ballast.pid, 0) if self._ballast else 0
        what = (
            f"GPU 0 lists the ballast with {ours / GIB:.2f} GiB, and {card.free / GIB:.3f} GiB free"
        )
        return Evidence(ours > 0 and card.free <= self.leave_gib * GIB, what)

    def outgrow(self) -> None:
        """Let the engine's next steps be larger than any before."""
        self.load.flood(Mix(self.clients, prompt=(16, 32), answer=(200, 400), pause=0.05))

    def crashed(self, target: Target) -> Evidence:
        """Whether the engine ran out of memory since the ballast came, as its own log has it."""
        return looks.ran_out_of_memory(target, self._log_from)

    def retract(self, target: Target) -> None:
        """In this order: an engine looks for its memory before it starts."""
        self.load.calm()
        ballast, self._ballast = self._ballast, None
        if ballast is None:
            return
        if self._held is not None:
            End(self._held).do()
        ballast.communicate(timeout=10)
        if not looks.answer_of(target.url):
            target.relaunch()


def main(arguments: Sequence[str]) -> int:
    """Hold the memory from the first line of the standard input on; without one, end."""
    if not sys.stdin.readline():
        return 0
    return gpu.main(arguments)


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    sys.exit(main(sys.argv[1:]))
