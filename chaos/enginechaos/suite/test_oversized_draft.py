"""cuda_oom: a draft model that the KV pool's sizing does not know of, and a batch of 256."""

from __future__ import annotations

import pytest

from enginechaos.faults import OversizedDraft

# It is launched anew: see test_quality_collapse for the seconds that it is away.
pytestmark = [pytest.mark.tiers("sim"), pytest.mark.engine(tensor_parallel=1, startup_seconds=6)]


@pytest.mark.hazard(
    "cuda_oom",
    certifies="an oversized draft model is told of before the batch that it is too large for, and "
    "the crash of that batch is paged once",
    but_not="real allocators, and engines that count the draft and have a smaller cache instead",
)
def test_an_oversized_draft_is_a_ticket_then_its_largest_batch_a_page(induce, scene, target, load):
    fault = OversizedDraft(load)
    with induce(fault) as induction:
        warning = induction.expect_warning("cuda_oom")
        assert not fault.crashed(target).found
        fault.fill_batch()
        assert scene.wait(lambda: fault.crashed(target).found, 30), fault.crashed(target).what
        page = induction.expect_page("cuda_oom")
        assert warning.firing_at < page.firing_at
