"""What one rank's GPU does, in 40 bytes that others can read while it is stopped.

A kernel goes on when its process is stopped: one that computes ends at its time, one that waits for
the other ranks spins on. So the file holds what was launched, and the reader tells what has become
of it.
"""

from __future__ import annotations

import mmap
import struct
import time
from pathlib import Path
from typing import Final, NamedTuple, Self

_LAYOUT: Final = struct.Struct("=dddd")
"""Seconds of work and of waiting that have ended, when the kernel now running began (0: none), and
when it will end (infinite: it waits for other ranks). Monotonic clock."""
_ENDLESS: Final = float("inf")


class Busy(NamedTuple):
    """Seconds since the rank started that its GPU computed, and that it only waited in a kernel."""

    working: float
    waiting: float


class Activity:
    """Written by the rank. An empty path: nobody reads it."""

    def __init__(self, path: str):
        self._map: mmap.mmap | None = None
        if path:
            with Path(path).open("w+b") as file:
                file.truncate(_LAYOUT.size)
                self._map = mmap.mmap(file.fileno(), _LAYOUT.size)
        self._working = self._waiting = self._began = self._ends = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._map is not None:
            self._map.close()

    def works(self, seconds: float) -> None:
        now = time.monotonic()
        self._turn(now, now, now + seconds)

    def waits(self) -> None:
        now = time.monotonic()
        self._turn(now, now, _ENDLESS)

    def rests(self) -> None:
        self._turn(time.monotonic(), 0.0, 0.0)

    def _turn(self, now: float, began: float, ends: float) -> None:
        if self._map is None:
            return
        if self._began and self._ends == _ENDLESS:
            self._waiting += now - self._began
        elif self._began:
            self._working += min(now, self._ends) - self._began
        self._began, self._ends = began, ends
        self._map[:] = _LAYOUT.pack(self._working, self._waiting, began, ends)


def read(path: Path, now: float) -> Busy | None:
    """As it is at `now` (monotonic); None where there is nothing to read yet."""
    try:
        working, waiting, began, ends = _LAYOUT.unpack(path.read_bytes())
    except (OSError, struct.error):
        return None
    if began and ends == _ENDLESS:
        waiting += now - began
    elif began:
        working += min(now, ends) - began
    return Busy(working, waiting)
