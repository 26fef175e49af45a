"""Memory runs out where it does on a GPU: in what the profiled step did not see."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginechaos.sim.memory import (
    GIB,
    MIB,
    Allocator,
    Model,
    OutOfGpuMemory,
    TooLittleMemory,
    check_free,
    plan,
)

TOTAL = int(139.8 * GIB)


def started(**draft: int) -> tuple[Allocator, Model]:
    """An engine with its weights and KV pool, 256 sequences of at most 8192 tokens a step."""
    model = Model(**draft)
    planned = plan(
        model,
        total=TOTAL,
        utilization=0.92,
        tokens=8192,
        sequences=256,
        block_size=16,
        profiles_draft=False,
    )
    one = Allocator(0, TOTAL, model.context)
    for size in (planned.weights, planned.kv):
        one.keep(size, TOTAL - one.in_use)
    one.touch(planned.peak, TOTAL - one.in_use)
    return one, model


def test_what_was_profiled_always_fits() -> None:
    one, model = started()
    before = one.reserved
    one.touch(model.step(8192, 256), 0)
    assert one.reserved == before


def test_speculation_at_batch_256_with_an_oversized_draft_runs_out() -> None:
    one, model = started(draft_weights=10 * GIB)
    one.touch(model.step(256, 64 * 8), TOTAL - one.in_use)
    with pytest.raises(OutOfGpuMemory, match="Tried to allocate"):
        one.touch(model.step(2048, 256 * 8), TOTAL - one.in_use)


def test_the_same_with_a_small_draft_fits() -> None:
    one, model = started(draft_weights=GIB)
    one.touch(model.step(2048, 256 * 8), TOTAL - one.in_use)


def test_the_message_is_pytorchs() -> None:
    one = Allocator(0, TOTAL, 500 * MIB)
    one.keep(120 * GIB, TOTAL)
    text = one.message(20 * GIB, int(19.29 * GIB))
    assert text.startswith(
        "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 139.80 GiB "
        "of which 19.29 GiB is free. Including non-PyTorch memory, this process has 120.49 GiB "
        "memory in use. Of the allocated memory 120.00 GiB is allocated by PyTorch, and 0 bytes is "
        "reserved by PyTorch but unallocated."
    )


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(1, 4 * GIB), min_size=1, max_size=20))
def test_the_driver_is_never_asked_for_more_than_it_has(sizes: list[int]) -> None:
    one = Allocator(0, 8 * GIB, 0)
    for size in sizes:
        free = 8 * GIB - one.in_use
        fits = one.growth(size) <= free
        if fits:
            one.touch(size, free)
        else:
            with pytest.raises(OutOfGpuMemory):
                one.touch(size, free)
        assert one.in_use <= 8 * GIB


def test_what_others_hold_at_start_is_told_as_vllm_tells_it() -> None:
    check_free(0, 139 * GIB, TOTAL, 0.92)
    with pytest.raises(TooLittleMemory, match=r"\(20\.00/139\.80 GiB\) on startup is less than"):
        check_free(0, 20 * GIB, TOTAL, 0.92)


def test_a_profile_sees_one_draft_token_of_each_sequence_and_only_where_it_sees_drafts() -> None:
    def peak(*, speculates: bool, profiles_draft: bool = True) -> int:
        planned = plan(
            Model(),
            total=TOTAL,
            utilization=0.92,
            tokens=256,
            sequences=256,
            block_size=16,
            speculates=speculates,
            profiles_draft=profiles_draft,
        )
        return planned.peak

    alone = peak(speculates=False)
    assert alone == Model().step(256, 256)
    assert peak(speculates=True) == 2 * alone
    assert peak(speculates=True, profiles_draft=False) == alone
