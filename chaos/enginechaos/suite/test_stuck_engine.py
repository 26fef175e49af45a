"""stuck_engine: an engine core stops, and its server says that it is well.

Where the watchdog sees the engine's processes, it names the stopped one, as collective_hang: see
test_collective_hang. Here it is on another machine, and has the page and its probe.
"""

from __future__ import annotations

import pytest

from enginechaos import stage
from enginechaos.faults import StoppedCore

pytestmark = [pytest.mark.tiers("sim"), pytest.mark.engine(tensor_parallel=1)]


@pytest.fixture(scope="module")
def watchdog(chaos_run, target, receivers):
    sections = {"processes": {"enabled": False}}
    with stage.watchdog_of(chaos_run, target, receivers, "stuck-engine", sections) as made:
        yield made


@pytest.mark.hazard(
    "stuck_engine",
    certifies="an engine core that stands still behind a healthy server is one page, by the probe "
    "alone",
    but_not="a core that is only slow",
)
def test_a_stopped_core_is_paged_and_resolves(induce, expect_page):
    with induce(StoppedCore()):
        expect_page("stuck_engine")
