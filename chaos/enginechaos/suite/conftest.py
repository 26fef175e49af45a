"""What files of the suite share beside the plugin's fixtures."""

from __future__ import annotations

from pathlib import Path

import pytest

from enginechaos import stage
from enginechaos.faults import MetricsProxy

LONGEST_FIRST = (
    "test_metrics_page",
    "test_metrics_untrusted",
    "test_controls",
    "test_lying_health",
    "test_quality_collapse",
    "test_gpu_fault",
    "test_whole_prompts",
    "test_oversized_draft",
    "test_cuda_oom",
    "test_engine_dead",
    "test_prefill_starvation",
    "test_token_budget",
    "test_engine_mismatch",
    "test_slow_link",
)
"""Files of more than 100 s, as they took: side by side, the last to begin decides when all is over.
"""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _place(item.path))


def _place(file: Path) -> int:
    first = file.parent == Path(__file__).parent and file.stem in LONGEST_FIRST
    return LONGEST_FIRST.index(file.stem) if first else len(LONGEST_FIRST)


@pytest.fixture(scope="module")
def proxy(chaos_run, engine, request):
    """Between the watchdog and the page of an engine of this module's own; its `target` is what
    the module's `target` has to be."""
    name = request.path.stem.removeprefix("test_").replace("_", "-")
    with MetricsProxy(stage.target_of(chaos_run, engine, name, {})) as made:
        yield made
