"""prefill_starvation: long prompts take the steps that running streams wait for."""

from __future__ import annotations

import pytest

from enginechaos.faults import PromptFlood


@pytest.mark.hazard(
    "prefill_starvation",
    certifies="a flood of long prompts is paged while users feel it, not minutes later",
    but_not="the size of the effect on a GPU, where prompts are read a hundred times as fast",
)
def test_a_flood_of_long_prompts_is_paged_and_resolves(induce, expect_page, load, baseline):
    baseline("engine:inter_token_latency_seconds:quiet1h")
    with induce(PromptFlood(load)):
        expect_page("prefill_starvation")
