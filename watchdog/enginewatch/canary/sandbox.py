"""Runs code that a model wrote, to see what it computes, and lets it do nothing else.

What holds, on Linux 3.17 or newer on x86-64 and aarch64:

- **System calls.** Before the first line of the code a seccomp filter is set, which nothing can
  take off. It lets through what computing needs (memory, clocks, reading and writing the
  descriptors that are open, the end) and refuses all else with EPERM: no
  file is opened, no socket made, no process or thread started, no program run, no signal
  sent, whatever privileges the daemon has. Open are the pipe for the answer and nothing more.
- **Limits.** Address space, processor seconds, file size 0, processes 0, no core dump. Sleeping is
  refused too, so that a machine with much to do is not mistaken for code that takes for ever: for
  what does not end all the same there is a deadline on the wall (`SlowError`), after which
  the process and its group are killed. No more run at a time than there are processors.
- **Surroundings.** Another interpreter (`-I -S`): no environment, no site packages, an empty
  folder as its working directory, a session of its own. Modules that are not loaded before
  the filter can't be imported.
- **Output.** Read up to a limit, then the process is killed. The expected values are not told to
  the code: a program that writes its own verdict can only write what it computed.

Not held: the time it takes, within its limits, and what a fault of the kernel itself allows.
Elsewhere (another system or processor, or a container whose own rules forbid seccomp)
nothing runs: `SandboxError`, and answers in code are not scored, which is not the same
as wrong.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from enginewatch.errors import EnginewatchError

_CHILD: Final = Path(__file__).with_name("sandbox_child.py")


class SandboxError(EnginewatchError):
    """Code can't be run safely on this machine; it was not run."""


class SlowError(SandboxError):
    """Nothing came within the deadline, though the processor time was not used up: the machine is
    too busy, or the code waits for itself. That says nothing of the code."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run may use. `seconds` count processor time, `wall` all time."""

    seconds: int = 2
    wall: float = 30.0
    memory: int = 256 << 20
    output: int = 256 << 10


class Program(NamedTuple):
    """Code, the function that is called, and the arguments of each call."""

    code: str
    function: str
    cases: Sequence[Sequence[Any]]


class Returned(NamedTuple):
    """What a call gave: a value that JSON can hold, or the name of what went wrong."""

    value: Any = None
    error: str = ""


def run(programs: Sequence[Program], limits: Limits = Limits()) -> list[list[Returned]]:
    """What each case of each program gives, in order. All run in one process, one after another:
    programs of different origin ask for a run each.

    What does not come back (killed, too much output, nonsense in the place of
    an answer) is an error of every case. Raises SandboxError where nothing may be run, and
    SlowError where that took too long.
    """
    asked = {
        "programs": [program._asdict() for program in programs],
        "memory": limits.memory,
        "seconds": limits.seconds,
    }
    with _PLACES:
        output, end = _child(json.dumps(asked).encode(), limits)
    if end == _LATE:
        raise SlowError(f"code gave nothing within {limits.wall:g} s")
    if end == _REFUSED:
        raise SandboxError("code is not run here", hint="it takes Linux with seccomp")
    try:
        told = json.loads(output)
        return [
            [_returned(case) for _, case in zip(program.cases, cases, strict=True)]
            for program, cases in zip(programs, told, strict=True)
        ]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return [[Returned(error=end or "no answer")] * len(each.cases) for each in programs]


def available() -> bool:
    """Whether code can be run on this machine."""
    try:
        return run([Program("def f(): return 1", "f", [[]])]) == [[Returned(1)]]
    except SlowError:
        return True
    except SandboxError:
        return False


_REFUSED: Final = "refused"
_LATE: Final = "late"
_PLACES: Final = threading.BoundedSemaphore(os.cpu_count() or 1)


def _returned(case: dict[str, Any]) -> Returned:
    return Returned(error=str(case["error"])[:100]) if "error" in case else Returned(case["value"])


def _child(asked: bytes, limits: Limits) -> tuple[bytes, str]:
    """What the child wrote, and how it ended where that was not by itself."""
    with tempfile.TemporaryDirectory() as empty, tempfile.TemporaryFile() as given:
        given.write(asked)
        given.seek(0)
        child = subprocess.Popen(  # noqa: S603 - our own interpreter and script
            [sys.executable, "-I", "-S", str(_CHILD)],
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={},
            cwd=empty,
            start_new_session=True,
        )
        try:
            return _listen(child, limits)
        finally:
            _kill(child)


def _listen(child: subprocess.Popen[bytes], limits: Limits) -> tuple[bytes, str]:
    assert child.stdout is not None
    assert child.stderr is not None
    deadline = time.monotonic() + limits.wall
    output = b""
    with selectors.DefaultSelector() as selector, child.stdout as out, child.stderr as err:
        selector.register(out, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0:
            if not selector.select(left):
                break
            chunk = os.read(out.fileno(), 1 << 16)
            if not chunk:
                return output, _ending(child, err, left)
            output += chunk
            if len(output) > limits.output:
                return b"", "too much output"
    return b"", _LATE


def _ending(child: subprocess.Popen[bytes], err: IO[bytes], left: float) -> str:
    try:
        code = child.wait(left)
    except subprocess.TimeoutExpired:  # it closed its output, and goes on
        return _LATE
    if code < 0:
        return signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    # Before the door is closed the child is ours, and says what it misses.
    os.set_blocking(err.fileno(), False)
    said = err.read(1 << 12) or b""
    return _REFUSED if code and (b"OSError" in said or b"ImportError" in said) else ""


def _kill(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
