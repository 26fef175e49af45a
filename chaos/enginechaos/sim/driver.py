"""What the GPU driver knows: memory held, utilisation and power, written where NVML's stand-in
reads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from enginechaos.sim.activity import Busy, read
from enginechaos.sim.gpu import GpuFile
from enginechaos.sim.memory import GIB
from enginechaos.sim.settings import Settings

_PERIOD: Final = 0.5
"""Seconds between looks; NVML's own utilisation is sampled over 1/6 to 1 s."""
_REST: Final = 121_000
"""Milliwatts of an H200 at rest, and also in a kernel that only waits (tests/data/README.md)."""
_WORK: Final = 690_000
"""At full work."""
_CLOCKS: Final = (405, 1980)
"""MHz at rest and with a kernel on it."""


class Driver:
    def __init__(self, settings: Settings, activity: Sequence[Path]):
        self._file: Final = GpuFile(settings.gpu_file) if settings.gpu_file else None
        self._activity: Final = activity
        self._before: list[tuple[float, Busy]] = []
        if self._file is not None:
            total = int(settings.memory.total_gib * GIB)
            self._file.prepare(len(activity), total, settings.gpu_name, settings.capability)
            self._file.release(0)

    async def run(self) -> None:
        """Write how the GPUs do, for ever."""
        if self._file is None:
            return
        while True:
            self._look(time.monotonic())
            await asyncio.sleep(_PERIOD)

    def end(self, pids: Iterable[int]) -> None:
        """These processes are gone, and what they held is free."""
        if self._file is None:
            return
        for pid in pids:
            self._file.release(pid)
        with self._file.edit() as found:
            for card in found["gpus"][: len(self._activity)]:
                card.update(_rested())

    def _look(self, now: float) -> None:
        assert self._file is not None
        busy = [read(path, now) or Busy(0, 0) for path in self._activity]
        before, self._before = self._before, [(now, each) for each in busy]
        if not before:
            return
        with self._file.edit() as found:
            for card, (then, old), new in zip(found["gpus"], before, busy, strict=False):
                span = max(now - then, 1e-3)
                card.update(
                    readings((new.working - old.working) / span, (new.waiting - old.waiting) / span)
                )
            for card in found["gpus"]:
                memory = card["memory"]
                memory["used"] = sum(each["memory"] for each in card["processes"])


def readings(working: float, waiting: float) -> dict[str, Any]:
    """Of a GPU that computed and that only waited in a kernel for these fractions of the time."""
    working, busy = max(0.0, min(1.0, working)), max(0.0, min(1.0, working + waiting))
    return {
        "utilization": {"gpu": round(100 * busy), "memory": round(60 * working)},
        "power": round(_REST + (_WORK - _REST) * working),
        "sm_clock": _CLOCKS[busy > 0],
    }


def _rested() -> dict[str, Any]:
    return readings(0, 0)
