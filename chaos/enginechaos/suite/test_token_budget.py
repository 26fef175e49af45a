"""prefill_starvation by a relaunch: the token budget of a step is too small for the batch, or so
large that a whole prompt is read in one."""

from __future__ import annotations

import pytest

from enginechaos import stage
from enginechaos.faults import NoFault, SmallTokenBudget, WholePrompts
from enginechaos.load import Mix

SEQUENCES = 32
DRAFTED = 7
READERS = Mix(clients=2, prompt=(2700, 3300), answer=(1, 8))

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


@pytest.mark.hazard(
    "prefill_starvation",
    certifies="a relaunch that reads whole prompts at once is paged, by what streams waited before "
    "it; two readers of long prompts alone page nobody",
    but_not="the size of the effect on a GPU, where prompts are read a hundred times as fast",
)
def test_a_relaunch_that_reads_whole_prompts_is_paged_and_resolves(
    induce, expect_page, expect_silence, load, baseline
):
    baseline("engine:inter_token_latency_seconds:quiet1h")
    load.flood(READERS)
    try:
        with induce(NoFault()):
            expect_silence(25)
        with induce(WholePrompts(load)):
            expect_page("prefill_starvation")
    finally:
        load.calm()
