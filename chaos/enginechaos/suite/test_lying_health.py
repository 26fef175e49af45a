"""/health says 200 and every gauge says what it said last, while no token comes."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest

from enginechaos import stage
from enginechaos.faults import Evidence, StoppedRank, Target
from enginechaos.load import Load

pytestmark = pytest.mark.tiers("sim")


class SilentEngine(StoppedRank):
    """A stopped rank behind a server that calls itself healthy; that is the evidence."""

    quiet = 4.0
    verify_within = 20.0

    def __init__(self, load: Load):
        super().__init__(rank=1)
        self.load = load

    def verify(self, target: Target) -> Evidence:
        stopped = super().verify(target)
        health = httpx.get(f"{target.url}/health", timeout=3, trust_env=False).status_code
        tokens = self.load.figures(self.quiet).tokens
        found = stopped.found and health == 200 and not tokens
        said = f"/health answers {health}, {tokens} tokens in {self.quiet:g} s; {stopped.what}"
        return Evidence(found, said)


@pytest.fixture(scope="module")
def target(chaos_run, engine):
    settings = {"dialect": "trtllm", "tensor_parallel": 2}
    made = stage.target_of(chaos_run, engine, "lying-health", settings)
    ranks = {"rank": r"mpi4py\.futures\.server --rank (?P<rank>\d+)"}
    metrics = f"{made.url}/prometheus/metrics"
    return replace(made, metrics_url=metrics, roles={**made.roles, **ranks})


@pytest.mark.hazard(
    "collective_hang",
    certifies="trtllm-serve that hangs with frozen gauges and a healthy /health is paged",
    but_not="hangs in which every process looks alive: there the probe takes a minute",
)
def test_a_healthy_engine_without_tokens_is_paged(induce, expect_page, load):
    with induce(SilentEngine(load)):
        expect_page("collective_hang")
