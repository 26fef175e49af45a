"""Continuous batching under one budget: what always holds, and where it starves whom."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.chaos.sim.virtual import Client, engine, run

from enginechaos.sim.blocks import BlockPool
from enginechaos.sim.engine import Engine
from enginechaos.sim.engine import Request as Asked
from enginechaos.sim.language import Language
from enginechaos.sim.scheduler import Limits, Scheduler, Sequence
from enginechaos.sim.timing import Timing


def scheduler(limits: Limits, blocks: int = 10_000) -> Scheduler:
    return Scheduler(limits, BlockPool(blocks, 16, caching=False))


def decoding(one: Scheduler, count: int, prompt: int = 4, answer: int = 10_000) -> None:
    """Add sequences, and compute their prompts."""
    for n in range(count):
        one.add(Sequence(f"s{n}", tuple(range(n, n + prompt)), answer))
    while one.waiting or any(not each.decoding for each in one.running):
        one.complete(one.schedule(), {})


requests = st.lists(st.tuples(st.integers(1, 300), st.integers(1, 40)), min_size=1, max_size=12)


@settings(deadline=None, max_examples=60)
@given(
    requests,
    st.integers(16, 400),
    st.integers(1, 16),
    st.integers(0, 4),
    st.integers(30, 200),
    st.booleans(),
)
def test_every_request_ends_with_what_it_asked_for_and_no_block_is_lost(
    asked: list[tuple[int, int]], budget: int, seqs: int, drafts: int, blocks: int, caching: bool
) -> None:
    pool = BlockPool(blocks, 16, caching=caching)
    free = pool.free
    limits = Limits(budget, seqs, drafts)
    one = Engine(limits, pool, Timing(1, 0, 0), Language(), 10_000)
    wanted = {}
    for n, (prompt, answer) in enumerate(asked):
        wanted[f"r{n}"] = answer
        one.add(Asked(f"r{n}", " ".join(["ant"] * prompt), answer, ignore_eos=True))
    told: dict[str, int] = {}
    for now in range(20_000):
        if not one.has_work:
            break
        step = one.schedule(float(now))
        assert step.tokens <= budget
        assert len(one.scheduler.running) <= seqs
        assert len({share.sequence.id for share in step.shares}) == len(step.shares)
        for output in one.complete(step)[0]:
            told[output.id] = told.get(output.id, 0) + len(output.pieces)
    assert told == wanted
    assert pool.free == free
    assert pool.usage == 0


def test_decodes_come_first_and_the_prompt_gets_what_they_leave() -> None:
    one = scheduler(Limits(64, 64))
    decoding(one, 10)
    one.add(Sequence("long", tuple(range(1000)), 5))
    step = one.schedule()
    assert [share.tokens for share in step.shares] == [1] * 10 + [54]


def test_without_chunks_a_prompt_waits_until_it_fits_whole() -> None:
    one = scheduler(Limits(64, 64, chunked_prefill=False))
    one.add(Sequence("long", tuple(range(65)), 5))
    assert not one.schedule().shares


def test_speculation_past_the_budget_pins_the_running() -> None:
    """200 requests, 5 draft tokens, a budget of 512: vLLM's own scheduler kept 86 running."""
    clients = [Client(f"c{n}", 64, 4000) for n in range(200)]
    one = engine(Limits(512, 256, 5))
    run(one, clients, 0.0, 10)
    assert 80 <= len(one.scheduler.running) <= 90
    assert len(one.scheduler.waiting) >= 110
    assert one.pool.usage < 0.2


def test_a_full_cache_preempts_the_youngest_which_starts_over() -> None:
    one = scheduler(Limits(2048, 64), blocks=41)
    for n in range(3):
        one.add(Sequence(f"s{n}", tuple(range(n, n + 200)), 200))
    preempted = []
    for _ in range(120):
        step = one.schedule()
        preempted += [each.id for each in step.preempted]
        one.complete(step, {})
    assert preempted[0] == "s2"
    assert one.waiting[0].computed == 0


def test_a_prompt_that_was_read_before_is_found_in_the_cache() -> None:
    one = Scheduler(Limits(2048, 8), BlockPool(100, 16))
    first = Sequence("a", tuple(range(100)), 1)
    one.add(first)
    one.complete(one.schedule(), {})
    one.remove(first)
    second = Sequence("b", tuple(range(100)), 1)
    one.add(second)
    one.schedule()
    assert second.cached == 96


def test_a_request_that_was_aborted_in_its_step_has_no_tokens() -> None:
    one = scheduler(Limits(64, 8))
    gone = Sequence("gone", (1, 2, 3), 5)
    one.add(gone)
    step = one.schedule()
    one.remove(gone)
    assert one.complete(step, {}) == {}
    assert one.pool.usage == 0
