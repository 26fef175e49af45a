"""The GPU helper process: a line of JSON a poll on standard output, until nobody reads it.

```
{"series": [[name, gpu, uuid, [[label, value], …]], …]}     before the first, and when they change
{"values": [number, …], "seconds": 0.0004}                  a poll: the values, and how long it took
{"unavailable": "Driver Not Loaded"}                        the last line, where there is no NVML
```
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from enginewatch.nvml.poller import Key, Poller
from enginewatch.nvml.readings import Nvml

Write = Callable[[dict[str, Any]], None]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m enginewatch.nvml", description=__doc__)
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between polls")
    parser.add_argument("--slow-interval", type=float, default=30.0, help="of expensive readings")
    parser.add_argument("--simulation", type=Path, help="read this file instead of a driver")
    parser.add_argument("--rounds", type=int, help="end after so many polls")
    given = parser.parse_args()
    # The terminal's Ctrl-C is for the daemon, which ends this process itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        serve(given.simulation, given.interval, given.slow_interval, given.rounds, _write)
    except BrokenPipeError:
        sys.stderr.close()  # nobody reads any more


def serve(
    simulation: Path | None, interval: float, slow: float, rounds: int | None, write: Write
) -> None:
    """Poll until `write` raises, or for so many rounds."""
    nvml = load(simulation)
    if nvml is None:
        write({"unavailable": "the Python module pynvml (nvidia-ml-py) is not installed"})
        return
    poller = Poller(nvml, time.time)
    try:
        nvml.nvmlInit()
        poller.open()
    except nvml.NVMLError as failure:
        write({"unavailable": str(failure)})
        return
    Loop(poller, interval, slow, write).run(rounds)


def load(simulation: Path | None) -> Nvml | None:
    """The module to read with; None where it is not installed."""
    try:
        if simulation is None:
            import pynvml  # noqa: PLC0415 - may be missing

            return pynvml
        from enginewatch.nvml.simulation import Simulation  # noqa: PLC0415 - needs pynvml too
    except ImportError:
        return None
    return Simulation(simulation)


class Loop:
    """A poll at each `interval`; expensive readings every `slow` seconds, and after an event."""

    def __init__(self, poller: Poller, interval: float, slow: float, write: Write):
        self._poller: Final = poller
        self._interval: Final = interval
        self._slow: Final = slow
        self._write: Final = write
        self._told: list[Key] | None = None
        self._slow_due = 0.0

    def run(self, rounds: int | None = None) -> None:
        done = 0
        due = time.monotonic()
        while True:
            self.turn()
            done += 1
            if done == rounds:
                return
            due = max(due + self._interval, time.monotonic())
            self._sleep_until(due)

    def turn(self) -> None:
        """One poll, told."""
        began = time.monotonic()
        slow = began >= self._slow_due
        if slow:
            self._slow_due = began + self._slow
            if not all(gpu.up for gpu in self._poller.gpus):
                self._poller.open()
        keys, values = self._poller.poll(slow=slow)
        if keys != self._told:
            self._told = keys
            self._write({"series": keys})
        self._write({"values": values, "seconds": time.monotonic() - began})

    def _sleep_until(self, due: float) -> None:
        while (left := due - time.monotonic()) > 0:
            if not self._poller.wait(left):
                time.sleep(max(0.0, due - time.monotonic()))
            elif due - time.monotonic() > 0:
                self._slow_due = 0.0  # an event: what it changed is asked for at once


def _write(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message, separators=(",", ":")) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
