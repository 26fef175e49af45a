"""Who holds the memory of one GPU: weights, KV pool, and what a step needs while it runs.

PyTorch's caching allocator keeps what it once took from the driver: a step that needs no more than
an earlier one takes nothing, and one that needs more asks the driver for the difference. The KV
pool is sized at start from what a profiled step leaves, so an out-of-memory comes from what the
profile did not see: other processes, draft weights (vllm#14067), or logits of speculative tokens
(research on vllm#13221).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

GIB: Final = 2**30
MIB: Final = 2**20
_SEGMENT: Final = 2 * MIB
"""Large allocations are rounded up to this (c10/cuda/CUDACachingAllocator.h, kRoundLarge)."""
_LOGIT_BYTES: Final = 4
"""The sampler works on float32 (vllm/v1/sample/sampler.py)."""


class OutOfGpuMemory(Exception):  # noqa: N818 - it carries PyTorch's own message
    """The driver has not enough; the message is PyTorch's."""


class TooLittleMemory(Exception):  # noqa: N818 - vLLM raises a ValueError
    """There is too little to begin with; the message is vLLM's."""


@dataclass(frozen=True)
class Model:
    """Bytes on one GPU. Defaults: Llama 3.1 8B in bfloat16, whose KV cache takes 128 KiB a
    token."""

    weights: int = 15 * GIB
    draft_weights: int = 0
    kv_per_token: int = 131_072
    draft_kv_per_token: int = 0
    vocabulary: int = 128_256
    activations_per_token: int = 200_000
    logit_copies: int = 3
    """Float32 copies of the logits that sampling holds at once: logits, probabilities, sorted."""
    context: int = 500 * MIB
    """The CUDA context and libraries, not PyTorch's."""

    def step(self, tokens: int, rows: int) -> int:
        """What a step holds while it runs, of `tokens` with `rows` rows of logits."""
        logits = rows * self.vocabulary * _LOGIT_BYTES * self.logit_copies
        return max(tokens * self.activations_per_token, logits)


@dataclass(frozen=True)
class Plan:
    """What is taken at start, in bytes."""

    weights: int
    peak: int
    kv: int
    blocks: int


def plan(
    model: Model,
    *,
    total: int,
    utilization: float,
    tokens: int,
    sequences: int,
    block_size: int,
    speculates: bool = False,
    profiles_draft: bool = True,
    blocks: int | None = None,
) -> Plan:
    """Size the KV pool: the share `utilization` of `total`, less weights and the peak of a profiled
    step.

    The profile runs `tokens` and samples a row for each of `sequences`. Where `profiles_draft`, it
    knows of the draft's weights, and of one draft token for each sequence that `speculates`,
    however many will be drafted (vllm#37521); else of neither (vllm#9995, vllm#14067).
    """
    peak = model.step(tokens, sequences * (2 if speculates and profiles_draft else 1))
    seen = model.weights + (model.draft_weights if profiles_draft else 0)
    per_block = block_size * (model.kv_per_token + model.draft_kv_per_token)
    room = int(total * utilization) - model.context - seen - peak
    count = max(0, room // per_block) if blocks is None else blocks
    return Plan(model.weights + model.draft_weights, peak, count * per_block, count)


def check_free(gpu: int, free: int, total: int, utilization: float) -> None:
    """vLLM's look before it loads anything (v1/worker/utils.py). Raises TooLittleMemory."""
    wanted = total * utilization
    if free < wanted:
        raise TooLittleMemory(
            f"Free memory on device cuda:{gpu} ({free / GIB:.2f}/{total / GIB:.2f} GiB) on startup "
            f"is less than desired GPU memory utilization ({utilization:g}, "
            f"{wanted / GIB:.2f} GiB). Decrease GPU memory utilization or reduce GPU memory used "
            "by other processes."
        )


@dataclass
class Allocator:
    """One process' PyTorch on one GPU. `free` arguments are what the driver has left, in bytes."""

    gpu: int
    total: int
    context: int
    allocated: int = 0
    reserved: int = 0

    @property
    def in_use(self) -> int:
        """What the driver counts for this process."""
        return self.context + self.reserved

    def keep(self, size: int, free: int) -> None:
        """Allocate for good. Raises OutOfGpuMemory."""
        self._reach(self.allocated + size, size, free)
        self.allocated += size

    def touch(self, size: int, free: int) -> None:
        """Allocate for the length of a step. Raises OutOfGpuMemory."""
        self._reach(self.allocated + size, size, free)

    def growth(self, size: int) -> int:
        """What `touch` would ask of the driver."""
        return _round(max(0, self.allocated + size - self.reserved))

    def _reach(self, wanted: int, size: int, free: int) -> None:
        grow = _round(max(0, wanted - self.reserved))
        if grow > free:
            raise OutOfGpuMemory(self.message(size, free))
        self.reserved += grow

    def message(self, tried: int, free: int) -> str:
        """PyTorch's sentence, as read on an H200."""
        return (
            f"CUDA out of memory. Tried to allocate {_size(tried)}. GPU {self.gpu} has a total "
            "capacity of "
            f"{_size(self.total)} of which {_size(free)} is free. Including non-PyTorch memory, "
            "this process has "
            f"{_size(self.in_use)} memory in use. Of the allocated memory {_size(self.allocated)} "
            "is allocated by "
            f"PyTorch, and {_size(self.reserved - self.allocated)} is reserved by PyTorch but "
            "unallocated. If reserved "
            "but unallocated memory is large try setting "
            "PYTORCH_ALLOC_CONF=expandable_segments:True to avoid "
            "fragmentation.  See documentation for Memory Management  "
            "(https://docs.pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
        )


def _round(size: int) -> int:
    return -(-size // _SEGMENT) * _SEGMENT


def _size(count: int) -> str:
    """As c10's format_size writes it."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (1024, "KiB")):
        if count >= unit:
            return f"{count / unit:.2f} {name}"
    return f"{count} bytes"
