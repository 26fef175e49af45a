"""engine_mismatch: an engine built for something else lies where the next start will load it."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest

from enginechaos import stage
from enginechaos.faults import ReplacedEngine
from enginechaos.sim import engine_dir
from enginechaos.sim.engine_dir import Build

pytestmark = pytest.mark.tiers("sim")

RANKS = 2
TENSORRT = "10.6.0.26"
ENGINE = {"dialect": "trtllm", "tensorrt": TENSORRT, "capability": [9, 0]}
INTERVAL = 10
"""Seconds between two looks at the files; five minutes by default."""


@pytest.fixture(scope="module")
def folder(chaos_run):
    """An engine directory that fits."""
    made = (chaos_run.folder / "deployed-engine").absolute()
    if not chaos_run.dry_run:
        engine_dir.write(made, Build.of("9.0", TENSORRT), ranks=RANKS)
    return made


@pytest.fixture(scope="module")
def target(chaos_run, engine, folder):
    settings = {**ENGINE, "tensor_parallel": RANKS, "engine_dir": str(folder)}
    made = stage.target_of(chaos_run, engine, "engine-mismatch", settings)
    # trtllm-serve has JSON at /metrics.
    return replace(made, metrics_url=f"{made.url}/prometheus/metrics")


@pytest.fixture(scope="module")
def watchdog(chaos_run, target, receivers, folder):
    # No `gpus`: they are those that NVML tells.
    section = {
        "deployment": target.deployment,
        "engine_dir": str(folder),
        "runtime": [f"tensorrt={TENSORRT}"],
        "interval": f"{INTERVAL}s",
    }
    with stage.watchdog_of(
        chaos_run, target, receivers, "engine-mismatch", {"preflight": [section]}
    ) as made:
        yield made


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(Build.of("10.0", TENSORRT), id="another-architecture"),
        pytest.param(Build.of("9.0", "10.5.0.18"), id="another-tensorrt"),
    ],
)
@pytest.mark.hazard(
    "engine_mismatch",
    certifies="an engine for another GPU or TensorRT is paged while the old one serves, and before "
    "any start that would load it",
    but_not="engines of a TensorRT whose plans are not read, and files on a disk that nobody named",
)
def test_a_replaced_engine_is_paged_before_it_has_traffic(
    induce, expect_page, baseline, target, folder, build
):
    baseline('enginewatch_nvml_info{compute_capability="9.0"}')
    with induce(ReplacedEngine(folder, build, RANKS, ENGINE)):
        expect_page("engine_mismatch")
        # Before traffic: whoever answers is the engine that was loaded before.
        health = httpx.get(f"{target.url}/health", timeout=5, trust_env=False)
        assert health.status_code == 200
