"""The simulated engine starves decodes as the real one did."""

from __future__ import annotations

import pytest
from tests.chaos.sim.virtual import Client, engine, mean_gap, run

from enginechaos.sim.engine import Engine
from enginechaos.sim.errors import SimError
from enginechaos.sim.scheduler import Limits
from enginechaos.sim.timing import Timing

# vLLM 0.32.0 on two cores, 8 decode streams, then 6 clients with fresh 3,000-token prompts back to
# back: mean gap between tokens in ms, quiet and in the flood, and how many times longer that is.
MEASURED = {256: (15.6, 160, 10), 2048: (15.1, 1349, 89), 8192: (16.6, 4907, 295)}


def starved(budget: int, answer: int) -> tuple[float, float]:
    """Milliseconds between tokens, quiet and in a flood whose answers have so many tokens."""
    one = engine(Limits(budget, 256))
    decodes = [Client(f"d{n}", 30, 1500) for n in range(8)]
    now = run(one, decodes, 0.0, 20)
    quiet = mean_gap(decodes)
    run(one, [*decodes, *(Client(f"f{n}", 3000, answer) for n in range(6))], now, 20)
    return 1000 * quiet, 1000 * mean_gap(decodes)


@pytest.mark.parametrize("budget", MEASURED)
def test_gap_under_prefill_is_within_15_percent_of_the_real_engines(budget: int) -> None:
    quiet, flood = starved(budget, answer=1)
    real_quiet, real_flood, real_ratio = MEASURED[budget]
    assert quiet == pytest.approx(real_quiet, rel=0.15)
    assert flood == pytest.approx(real_flood, rel=0.15)
    assert flood / quiet == pytest.approx(real_ratio, rel=0.15)


def test_the_recorded_flood_is_met_too() -> None:
    """vllm-prefill-flood: 51 ms to 3,570 ms, 70 times, answers of 4 tokens, a busier machine."""
    quiet, flood = starved(2048, answer=4)
    assert flood / quiet == pytest.approx(70, rel=0.15)


def test_an_unknown_profile_is_told_with_those_that_are_known() -> None:
    with pytest.raises(SimError, match="vllm-cpu"):
        Timing.load("abacus")


def under(budget: int, *, chunked: bool = True, readers: int = 0) -> tuple[float, Engine]:
    """The gap of 16 chats that draft 7 tokens, and the engine after a minute."""
    limits = Limits(budget, 32, 7, chunked_prefill=chunked)
    one = engine(limits)
    chats = [Client(f"chat{n}", 90, 80) for n in range(16)]
    run(one, [*chats, *(Client(f"reader{n}", 3000, 5) for n in range(readers))], 0.0, 60.0)
    return mean_gap(chats), one


def test_a_budget_below_what_decodes_draft_leaves_the_running_quick_and_the_others_waiting() -> (
    None
):
    before, roomy = under(32 * 8)
    assert len(roomy.scheduler.running) >= 14
    after, tight = under(32)
    assert after < before
    assert len(tight.scheduler.running) <= 5
    assert len(tight.scheduler.waiting) >= 11


def test_prompts_that_are_read_whole_make_streams_wait_that_did_not() -> None:
    quiet, _ = under(32 * 8)
    chunks, _ = under(32 * 8, readers=2)
    whole, _ = under(8192, chunked=False, readers=2)
    assert chunks < 2 * quiet
    assert whole > 8 * quiet
