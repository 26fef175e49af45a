"""prefill_starvation by a relaunch: a step reads a prompt from its first token to its last.

Apart from test_token_budget: an engine that is launched anew three times within half an hour is
paged, and rightly, as one that keeps dying.
"""

from __future__ import annotations

import pytest

from enginechaos import stage
from enginechaos.faults import WholePrompts
from enginechaos.load import Mix

READERS = Mix(clients=2, prompt=(2700, 3300), answer=(1, 2), pause=0.05)

pytestmark = [
    pytest.mark.tiers("sim"),
    # A budget for streams that must not stutter. It is launched anew: see test_quality_collapse for
    # the seconds that it is away.
    pytest.mark.engine(
        tensor_parallel=1, max_num_seqs=32, max_num_batched_tokens=64, startup_seconds=6
    ),
]


@pytest.fixture(scope="module")
def load(chaos_run, target):
    with stage.load_of(chaos_run, target) as made:
        if not chaos_run.dry_run:
            made.flood(READERS)
        yield made


@pytest.mark.hazard(
    "prefill_starvation",
    certifies="a relaunch that reads whole prompts at once is paged, under a load with two readers "
    "of long prompts that was nobody's page before",
    but_not="the size of the effect on a GPU, where prompts are read a hundred times as fast",
)
def test_a_relaunch_that_reads_whole_prompts_is_paged_and_resolves(
    induce, expect_page, load, baseline
):
    baseline("engine:inter_token_latency_seconds:quiet1h")
    with induce(WholePrompts(load)):
        expect_page("prefill_starvation")
