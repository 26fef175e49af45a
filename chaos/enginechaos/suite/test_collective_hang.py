"""collective_hang: one tensor-parallel rank is out of step, and all requests wait for it."""

from __future__ import annotations

import pytest

from enginechaos.faults import StoppedRank


@pytest.mark.hazard(
    "collective_hang",
    certifies="one stopped rank of a tensor-parallel engine is paged before the engine notices",
    but_not="hangs inside NCCL, where every rank's process looks alive",
)
def test_a_stopped_rank_is_paged_and_resolves(induce, expect_page):
    with induce(StoppedRank(rank=1)):
        expect_page("collective_hang")
