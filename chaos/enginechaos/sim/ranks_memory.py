"""The memory of all ranks' GPUs: planned at start, then asked of the driver as steps need more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from enginechaos.sim.gpu import GpuFile
from enginechaos.sim.memory import (
    GIB,
    Allocator,
    OutOfGpuMemory,
    TooLittleMemory,
    check_free,
    plan,
)
from enginechaos.sim.settings import Settings

_LOOK_FIRST: Final = frozenset({"vllm", "vllm-old", "nim"})
"""Engines that refuse to start where others hold the memory that they are configured to take."""
_LEAST_BLOCKS: Final = 2


class RanksMemory:
    """Without a `gpu_file` the GPUs are the engine's alone."""

    def __init__(self, settings: Settings):
        memory = settings.memory
        self._settings: Final = settings
        self._file: Final = GpuFile(settings.gpu_file) if settings.gpu_file else None
        self._model: Final = memory.model(settings.tensor_parallel)
        self._total: Final = int(memory.total_gib * GIB)
        self._ranks: list[tuple[int, Allocator]] = []

    def start(self, pids: Sequence[int]) -> int:
        """Take what is taken for good; how many blocks the KV cache has.

        Raises OutOfGpuMemory and
        TooLittleMemory.
        """
        settings = self._settings
        blocks = settings.kv_tokens and settings.kv_tokens // settings.block_size + 1
        planned = plan(
            self._model,
            total=self._total,
            utilization=settings.memory.utilization,
            tokens=settings.max_num_batched_tokens,
            sequences=min(settings.max_num_seqs, settings.max_num_batched_tokens),
            block_size=settings.block_size,
            speculates=settings.speculative_tokens > 0,
            profiles_draft=settings.memory.profiles_draft,
            blocks=blocks,
        )
        if planned.blocks < _LEAST_BLOCKS:
            raise TooLittleMemory(
                "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` "
                "when initializing the engine."
            )
        for gpu, pid in enumerate(pids):
            if self._file and settings.dialect in _LOOK_FIRST:
                free = self._file.free(gpu)
                check_free(gpu, free, self._total, settings.memory.utilization)
            allocator = Allocator(gpu, self._total, self._model.context)
            self._ranks.append((pid, allocator))
            if self._file and self._file.claim(gpu, pid, allocator.context) is None:
                raise OutOfGpuMemory(allocator.message(allocator.context, self._free(allocator)))
            for size in (planned.weights, planned.kv):
                self._grow(pid, allocator, size, keep=True)
            self._grow(pid, allocator, planned.peak, keep=False)
        return planned.blocks

    def touch(self, tokens: int, rows: int) -> None:
        """A step of `tokens` with `rows` rows of logits. Raises OutOfGpuMemory."""
        size = self._model.step(tokens, rows)
        for pid, allocator in self._ranks:
            if allocator.growth(size):
                self._grow(pid, allocator, size, keep=False)

    def _grow(self, pid: int, allocator: Allocator, size: int, *, keep: bool) -> None:
        before = allocator.reserved
        (allocator.keep if keep else allocator.touch)(size, self._free(allocator))
        if self._file is None:
            return
        if self._file.claim(allocator.gpu, pid, allocator.in_use) is None:  # another was quicker
            allocator.reserved = before
            raise OutOfGpuMemory(allocator.message(size, self._free(allocator)))

    def _free(self, allocator: Allocator) -> int:
        if self._file is None:
            return self._total - allocator.in_use
        return max(0, self._file.free(allocator.gpu))
