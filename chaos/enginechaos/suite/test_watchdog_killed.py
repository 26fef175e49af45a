"""The watchdog dies in the middle of an incident, and comes back to the same one."""

from __future__ import annotations

import time

import pytest

from enginechaos.faults import StoppedRank
from enginechaos.processes import alive
from enginechaos.watchdog import StartedWatchdog

WRITTEN_DOWN = 2.0
"""Seconds after which a receiver's answer is on the watchdog's disk, even where that is busy."""


@pytest.mark.tiers("sim")
@pytest.mark.hazard(
    "collective_hang",
    certifies="a watchdog killed during an incident goes on with it: one page, one resolve",
    but_not="a kill while a page is on its way, which may then arrive twice; a lost disk",
)
def test_a_killed_watchdog_goes_on_with_its_incident(induce, expect_page, watchdog, scene):
    assert isinstance(watchdog, StartedWatchdog)
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
