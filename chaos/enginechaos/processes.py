"""What a process is and how it does, as Linux' /proc tells.

A process is known by its pid and the time it started: pids are used again.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

PROC: Final = Path("/proc")
GONE: Final = frozenset({"", "Z", "X"})
"""States of a process that is none any more: not there, a zombie, dead."""


@dataclass(frozen=True, slots=True)
class Process:
    """`started` is in clock ticks since the machine booted; `command` is its command line."""

    pid: int
    started: int
    parent: int = 0
    command: str = ""

    def __str__(self) -> str:
        return f"{self.command[:60] or 'process'} (pid {self.pid})"

    def as_json(self) -> dict[str, Any]:
        return {"pid": self.pid, "started": self.started, "command": self.command[:200]}

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Self:
        return cls(int(found["pid"]), int(found["started"]), 0, str(found.get("command", "")))


@dataclass(frozen=True, slots=True)
class Stat:
    """Of /proc/PID/stat (proc_pid_stat(5)): `state` is one letter, T for stopped."""

    pid: int
    state: str
    parent: int
    started: int


def parse_stat(text: str) -> Stat:
    """One line of /proc/PID/stat. The name in it may hold blanks and brackets.

    Raises ValueError.
    """
    head, bracket, rest = text.rpartition(")")
    fields = rest.split()
    if not bracket or len(fields) < 20:
        raise ValueError(f"not a /proc/PID/stat: {text[:60]!r}")
    return Stat(int(head.split(maxsplit=1)[0]), fields[0], int(fields[1]), int(fields[19]))


def stat(pid: int) -> Stat | None:
    """None when there is no such process."""
    try:
        return parse_stat((PROC / str(pid) / "stat").read_text(errors="replace"))
    except (OSError, ValueError):
        return None


def process(pid: int) -> Process | None:
    found = stat(pid)
    if found is None:
        return None
    try:
        command = (PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return None
    text = command.rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace").strip()
    return Process(pid, found.started, found.parent, text)


def processes() -> list[Process]:
    """All of this machine that can be read."""
    pids = (int(each.name) for each in PROC.iterdir() if each.name.isdigit())
    return [found for found in map(process, pids) if found is not None]


def below(root: int, table: Iterable[Process]) -> Iterator[Process]:
    """The process `root` and all that descend from it, parents first."""
    children: dict[int, list[Process]] = {}
    for each in table:
        children.setdefault(each.parent, []).append(each)
        if each.pid == root:
            yield each
    waiting = [root]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            yield child
            waiting.append(child.pid)


def alive(one: Process) -> bool:
    """Whether this very process is still there, and no zombie."""
    found = stat(one.pid)
    return found is not None and found.started == one.started and found.state not in GONE


def end(
    child: subprocess.Popen[str],
    with_signal: signal.Signals = signal.SIGTERM,
    within: float = 10.0,
) -> None:
    """End a child and close what is read of it. One that is still there `within` seconds after the
    signal is killed. TERM by default: an engine takes its ranks along."""
    if child.poll() is None:
        child.send_signal(with_signal)
        try:
            child.wait(within)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait(within)
    if child.stdout is not None:
        child.stdout.close()
