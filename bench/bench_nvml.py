"""What a poll of simulated GPUs costs in processor time: in the helper process, and in the daemon.

The driver's own time is the real machine's; here its calls are a Python function each.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.table import Table

from enginewatch.collect.nvml import NvmlCollector
from enginewatch.config import NvmlConfig
from enginewatch.nvml.__main__ import Loop
from enginewatch.nvml.poller import Poller
from enginewatch.nvml.simulation import Simulation
from enginewatch.store.head import Head

POLLS = 500
LINKS = [1] * 18
GPU = {
    "nvlink": LINKS,
    "nvlink_errors": [[0, 0, 0, 0]] * len(LINKS),
    "processes": [{"pid": pid, "memory": 1 << 30} for pid in range(2)],
}


def seconds(work: Callable[[], object], times: int) -> float:
    """Processor time of one call, in seconds."""
    began = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - began) / times


def measure(gpus: int, folder: Path) -> tuple[float, float, int]:
    """Of one poll: seconds in the helper and in the daemon, and how many series it has."""
    script = folder / f"{gpus}.json"
    script.write_text(json.dumps({"gpus": [{**GPU, "uuid": f"GPU-{n}"} for n in range(gpus)]}))
    lines: list[str] = []

    def write(message: dict[str, Any]) -> None:
        lines.append(json.dumps(message, separators=(",", ":")))

    poller = Poller(Simulation(script), time.time)
    poller.open()
    helper = Loop(poller, interval=1.0, slow=1e9, write=write)
    helper.turn()
    in_helper = seconds(helper.turn, POLLS)

    now = itertools.count(1_700_000_000_000, 1000)
    collector = NvmlCollector(NvmlConfig(), Head(), lambda: next(now))
    polls = iter(lines)
    series = json.loads(next(polls))["series"]

    async def take() -> float:
        collector.accept({"series": series})
        began = time.process_time()
        for line in polls:
            collector.accept(json.loads(line))
        return (time.process_time() - began) / (POLLS + 1)

    return in_helper, asyncio.run(take()), len(series)


def main() -> None:
    grid = Table(title="A poll of NVML, simulated")
    for heading in ("GPUs", "series", "helper", "daemon", "together"):
        grid.add_column(heading, justify="right")
    with TemporaryDirectory() as folder:
        for gpus in (1, 8, 16):
            helper, daemon, count = measure(gpus, Path(folder))
            spent = (helper, daemon, helper + daemon)
            grid.add_row(str(gpus), str(count), *(f"{one * 1000:.2f} ms" for one in spent))
    Console().print(grid)


if __name__ == "__main__":
    main()
