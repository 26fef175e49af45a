"""The kernel's process table, as far as engines are concerned: what `/proc` says of a process.

`/proc/PID/stat` is always safe to read. The command line and the environment are in
the process's own memory: reading them can hang for as long as the process does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

_PROC: Final = Path("/proc")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_MOST_READ: Final = 16_384

_RANK_NAMES: Final = (
    b"OMPI_COMM_WORLD_RANK",
    b"PMIX_RANK",
    b"PMI_RANK",
    b"PMI_ID",
    b"RANK",
    b"SLURM_PROCID",
)
"""Where launchers tell a process its rank: Open MPI, PMIx, MPICH (two), torchrun, Slurm."""


class State(StrEnum):
    """What a process does, by the letter of proc_pid_stat(5)."""

    RUNNING = "running"
    SLEEPING = "sleeping"
    DISK_SLEEP = "disk_sleep"
    """Uninterruptible: waits for a device, and no signal reaches it."""
    STOPPED = "stopped"
    TRACED = "traced"
    """Stopped by a debugger."""
    ZOMBIE = "zombie"
    OTHER = "other"


_LETTERS: Final = {
    "R": State.RUNNING,
    "S": State.SLEEPING,
    "D": State.DISK_SLEEP,
    "T": State.STOPPED,
    "t": State.TRACED,
    "Z": State.ZOMBIE,
    "X": State.ZOMBIE,
    "I": State.SLEEPING,
}


class Stat(NamedTuple):
    """One line of the table. `cpu` is in seconds, `rss` in bytes, `start` in ticks since boot:
    with the PID it tells this process from one that has its number later."""

    pid: int
    ppid: int
    comm: str
    state: State
    cpu: float
    start: int
    rss: int

    @property
    def key(self) -> tuple[int, int]:
        return self.pid, self.start


def pids() -> Iterator[int]:
    for name in os.listdir(_PROC):  # noqa: PTH208 - a Path for each would cost more than the look
        if name.isdecimal():
            yield int(name)


def read_stat(pid: int) -> Stat | None:
    """None where there is no such process, or not any more."""
    try:
        return parse_stat(_read(f"/proc/{pid}/stat").decode("utf-8", "replace"))
    except (OSError, ValueError):
        return None


def parse_stat(line: str) -> Stat:
    """A line of proc_pid_stat(5). The name may hold anything, a `)` too. Raises ValueError."""
    head, _, tail = line.rpartition(")")
    pid, _, comm = head.partition(" (")
    fields = tail.split()
    if len(fields) < 22:
        raise ValueError(f"not a line of /proc/PID/stat: {line[:80]!r}")
    return Stat(
        pid=int(pid),
        ppid=int(fields[1]),
        comm=comm,
        state=_LETTERS.get(fields[0], State.OTHER),
        cpu=(int(fields[11]) + int(fields[12])) / _TICKS,
        start=int(fields[19]),
        rss=int(fields[21]) * _PAGE,
    )


def read_command(pid: int) -> str:
    """The command line, or the title that the process gave itself; `""` for a zombie.

    May hang while the process is in an uninterruptible sleep.
    """
    try:
        return _read(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""


def read_rank(pid: int) -> str:
    """The rank that MPI or another launcher gave the process; `""` where none can be read.

    Nothing else of the environment is kept. May hang as `read_command` may.
    """
    try:
        given = dict(
            entry.split(b"=", 1)
            for entry in _read(f"/proc/{pid}/environ").split(b"\0")
            if b"=" in entry
        )
    except OSError:
        return ""
    ranks = (given.get(name, b"") for name in _RANK_NAMES)
    return next((rank.decode() for rank in ranks if rank.isdigit()), "")


def boot_time() -> float:
    """When the machine was started, in Unix seconds: process start times count from there."""
    with open("/proc/stat", encoding="ascii") as file:  # noqa: PTH123
        for line in file:
            if line.startswith("btime "):
                return float(line.split()[1])
    return 0.0


def start_time(stat: Stat, boot: float) -> float:
    """When a process was started, in Unix seconds."""
    return boot + stat.start / _TICKS


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - a Path costs more than the read
        return file.read(_MOST_READ)
