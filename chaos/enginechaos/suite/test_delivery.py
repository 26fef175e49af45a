"""A receiver is down while the page is due: it hears of it once, afterwards; others at once."""

from __future__ import annotations

import pytest

from enginechaos.faults import ReceiverDown, StoppedRank, Together
from enginechaos.receivers import Trouble

VERDICT = "collective_hang"


@pytest.mark.tiers("sim")
@pytest.mark.parametrize(
    ("which", "trouble"),
    [
        pytest.param("slack", Trouble(status=503), id="slack refuses"),
        pytest.param("pagerduty", Trouble(status=503, seconds=30), id="pagerduty hangs"),
    ],
)
@pytest.mark.hazard(
    VERDICT,
    certifies="a receiver that was down hears of the page once it is back, others do not wait",
    but_not="a provider that takes a page and loses its answer, hours of outage",
)
def test_a_page_outlives_its_receiver(induce, expect_page, receivers, scene, which, trouble):
    outage = ReceiverDown(receivers, which, trouble)
    with induce(Together(outage, StoppedRank(rank=1))) as induced:
        before = outage.provider.attempts
        others = set(receivers.names) - {which}

        def told() -> set[str]:
            heard = receivers.inbox.taken(induced.began_at)
            return {d.receiver for d in heard if d.verdict == VERDICT and d.firing}

        # The watchdog has 15 s to detect and 5 s to deliver.
        assert scene.wait(lambda: told() >= others, 20), f"{others} waited for {which}"
        assert scene.wait(lambda: outage.provider.attempts > before, 5), f"{which} was not asked"
        assert which not in told()
        outage.mend()
        expect_page(VERDICT, deliver=75)
