"""engine_dead: a rank is killed, and the engine ends with it."""

from __future__ import annotations

import pytest

from enginechaos.faults import KilledRank


@pytest.mark.hazard(
    "engine_dead",
    certifies="an engine that died is paged once, without the alarms that its death explains",
    but_not="orphaned workers that keep a GPU's memory, and restarts by a supervisor",
)
def test_a_killed_rank_is_paged_as_a_dead_engine_and_resolves(induce, expect_page):
    with induce(KilledRank(rank=1)):
        expect_page("engine_dead")
