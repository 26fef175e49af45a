"""enginewatch with a wall clock that a test sets, and no other clock.

`python -m tests.support.clock FILE ...`: FILE holds by how many seconds the clock is off; what
follows is for `enginewatch`.
Replaced is what Python code asks for the time of day; the program is the real one.
"""

from __future__ import annotations

import datetime
import runpy
import sys
import time
from collections.abc import Sequence
from pathlib import Path

PROGRAM = "tests.support.clock"


class SetClock:
    """The test's end of it."""

    def __init__(self, path: Path):
        self.path = path
        self.off = 0
        self.set(0)

    @property
    def program(self) -> Sequence[str]:
        """For `daemon.running`."""
        return PROGRAM, str(self.path)

    def set(self, seconds: int) -> None:
        """By so much more than it is off now."""
        self.off += seconds
        new = self.path.with_suffix(".new")
        new.write_text(str(self.off))
        new.replace(self.path)

    def now(self) -> float:
        """What the program takes the time for, in Unix seconds."""
        return time.time() + self.off


def pretend(path: Path) -> None:
    real = time.time_ns

    def time_ns() -> int:
        return real() + int(path.read_text()) * 1_000_000_000

    class Datetime(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Datetime:
            return cls.fromtimestamp(time_ns() / 1e9, tz)

    time.time_ns = time_ns
    time.time = lambda: time_ns() / 1e9
    datetime.datetime = Datetime  # type: ignore[misc]


def main() -> None:
    _, path, *arguments = sys.argv
    pretend(Path(path))
    sys.argv = ["enginewatch", *arguments]
    runpy.run_module("enginewatch", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
