"""cuda_oom: another process takes what the engine's next larger step would need."""

from __future__ import annotations

import pytest

from enginechaos.faults import MemoryBallast

pytestmark = [
    pytest.mark.tiers("sim"),
    # Its profiled step has 32 rows of logits; 24 requests that draft have 192.
    pytest.mark.engine(
        tensor_parallel=2, max_num_seqs=32, max_num_batched_tokens=512, speculative_tokens=7
    ),
]


@pytest.mark.hazard(
    "cuda_oom",
    certifies="a GPU without headroom is told of before the crash, and the crash is paged once",
    but_not="a GPU's own allocator and its fragments, and a crash that no low headroom goes before",
)
def test_lost_headroom_is_a_ticket_then_a_crash_is_a_page_and_both_resolve(
    induce, scene, target, load
):
    ballast = MemoryBallast(load)
    with induce(ballast) as induction:
        warning = induction.expect_warning("cuda_oom")
        assert not ballast.crashed(target).found
        ballast.outgrow()
        assert scene.wait(lambda: ballast.crashed(target).found, 20), ballast.crashed(target).what
        page = induction.expect_page("cuda_oom")
        assert warning.firing_at < page.firing_at
