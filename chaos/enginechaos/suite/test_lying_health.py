"""trtllm-serve's /health says 200 and its gauges say what they said last, while no token comes."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest

from enginechaos import stage
from enginechaos.faults import Evidence, RankRelay, StalledLink, StoppedRank, Target

pytestmark = pytest.mark.tiers("sim")

TOLD = ("metrics_untrusted",)
"""Two minutes after it has met trtllm-serve, the watchdog tells what that can't show it."""


class HealthyStoppedRank(StoppedRank):
    """A stopped rank behind a server that calls itself healthy; that is the evidence."""

    def verify(self, target: Target) -> Evidence:
        stopped = super().verify(target)
        health = httpx.get(f"{target.url}/health", timeout=3, trust_env=False).status_code
        return Evidence(
            stopped.found and health == httpx.codes.OK, f"{stopped.what}; /health answers {health}"
        )


@pytest.fixture(scope="module")
def relay():
    with RankRelay() as made:
        yield made


@pytest.fixture(scope="module")
def target(chaos_run, engine, relay):
    settings = {"dialect": "trtllm", "tensor_parallel": 2, "ranks": relay.ranks()}
    made = stage.target_of(chaos_run, engine, "lying-health", settings)
    roles = {**made.roles, "rank": r"mpi4py\.futures\.server --rank (?P<rank>\d+)"}
    return replace(made, metrics_url=f"{made.url}/prometheus/metrics", roles=roles)


@pytest.mark.hazard(
    "collective_hang",
    certifies="a stopped rank is paged although /health says 200 and every gauge stands still",
    but_not="hangs in which every process runs",
)
def test_a_stopped_rank_behind_a_healthy_server_is_paged(induce, expect_page):
    with induce(HealthyStoppedRank(rank=1)):
        expect_page("collective_hang", also=TOLD)


@pytest.mark.hazard(
    "stuck_engine",
    certifies="a hang in which every process runs is paged by the probe alone",
    but_not="a hang that lets the probe's short requests through",
)
def test_a_hang_that_no_gauge_and_no_process_shows_is_paged(induce, expect_page, relay, load):
    # The page of trtllm-serve shows no progress, so the rule gives the probe a minute.
    with induce(StalledLink(relay, load)):
        expect_page("stuck_engine", within=90, also=TOLD)
