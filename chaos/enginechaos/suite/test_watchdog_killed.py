"""The watchdog dies in the middle of an incident, and comes back to the same one."""

from __future__ import annotations

import time

import pytest

from enginechaos.faults import StoppedRank
from enginechaos.processes import alive

WRITTEN_DOWN = 2.0
"""Seconds after which a receiver's answer is on the watchdog's disk, even where that is busy."""


@pytest.mark.tiers("sim")
@pytest.mark.hazard(
    "collective_hang",
    certifies="a watchdog killed during an incident goes on with it: one page, one resolve",
    but_not="a kill while a page is on its way, which may then arrive twice; a lost disk",
)
def test_a_killed_watchdog_goes_on_with_its_incident(induce, expect_page, watchdog, scene):
    with induce(StoppedRank(rank=1)):
        expect_page("collective_hang")
        time.sleep(WRITTEN_DOWN)
        before = watchdog.process
        watchdog.kill()
        assert not alive(before)
        watchdog.start()
        assert watchdog.process != before

        def fires():
            alerts = watchdog.alerts(scene.target.deployment)
            return [a for a in alerts if a.verdict == "collective_hang" and a.state == "firing"]

        assert scene.wait(fires, 20), "the alert did not outlive the watchdog"


@pytest.mark.tiers("sim")
@pytest.mark.hazard(
    "collective_hang",
    certifies="a watchdog killed before it could page does so when it is back, once",
    but_not="a watchdog that nobody starts again: its heartbeat is for that",
)
def test_a_watchdog_killed_before_its_page_pages_when_it_is_back(induce, expect_page, watchdog):
    with induce(StoppedRank(rank=1)):
        watchdog.kill()
        watchdog.start()
        # It begins to look anew: the budget, and the time it takes to start.
        expect_page("collective_hang", within=30)
