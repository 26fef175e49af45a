"""What files of the suite share beside the plugin's fixtures."""

from __future__ import annotations

import pytest

from enginechaos import stage
from enginechaos.faults import MetricsProxy


@pytest.fixture(scope="module")
def proxy(chaos_run, engine, request):
    """Between the watchdog and the page of an engine of this module's own; its `target` is what
    the module's `target` has to be."""
    name = request.path.stem.removeprefix("test_").replace("_", "-")
    with MetricsProxy(stage.target_of(chaos_run, engine, name, {})) as made:
        yield made
