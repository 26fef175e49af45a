"""prefill_starvation by a relaunch: the token budget of a step lets a quarter of the batch in."""

from __future__ import annotations

import pytest

from enginechaos import stage
from enginechaos.faults import SmallTokenBudget
from enginechaos.load import Mix

SEQUENCES = 32
DRAFTED = 7

pytestmark = [
    pytest.mark.tiers("sim"),
    # The budget is what a full batch asks for. It is launched anew: see test_quality_collapse for
    # the seconds that it is away.
    pytest.mark.engine(
        tensor_parallel=1,
        max_num_seqs=SEQUENCES,
        speculative_tokens=DRAFTED,
        max_num_batched_tokens=SEQUENCES * (1 + DRAFTED),
        startup_seconds=6,
    ),
]


@pytest.fixture(scope="module")
def load(chaos_run, target):
    with stage.load_of(chaos_run, target, Mix(clients=16)) as made:
        yield made


@pytest.mark.hazard(
    "prefill_starvation",
    certifies="a relaunch whose token budget keeps most of an ordinary load waiting is paged",
    but_not="an engine that has never run with a better budget: that is a ticket after 15 minutes",
)
def test_a_relaunch_with_too_small_a_budget_is_paged_and_resolves(
    induce, expect_page, load, baseline
):
    baseline("engine:requests_running:sum >= 12")
    # The least that vLLM accepts beside its max_num_seqs.
    with induce(SmallTokenBudget(load, tokens=SEQUENCES)):
        expect_page("prefill_starvation")
