"""Receivers are down while a page is due: they hear of it once, afterwards; the others at once."""

from __future__ import annotations

import pytest

from enginechaos.faults import ReceiverDown, StoppedRank, Together
from enginechaos.receivers import Trouble

VERDICT = "collective_hang"


@pytest.mark.tiers("sim")
@pytest.mark.hazard(
    VERDICT,
    certifies="receivers that refuse or hang hear of the page when they are back, others at once",
    but_not="a provider that takes a page and loses its answer, hours of outage",
)
def test_a_page_outlives_its_receivers(induce, expect_page, receivers, scene):
    outages = [
        ReceiverDown(receivers, "slack", Trouble(status=503)),
        ReceiverDown(receivers, "pagerduty", Trouble(seconds=30)),
    ]
    # Before the injection: until it is proved, the page may be on its way.
    asked = [outage.provider.attempts for outage in outages]
    with induce(Together(*outages, StoppedRank(rank=1))) as induced:

        def told() -> set[str]:
            heard = receivers.inbox.taken(induced.began_at)
            return {d.receiver for d in heard if d.verdict == VERDICT and d.firing}

        def tried() -> bool:
            now = [outage.provider.attempts for outage in outages]
            return all(more > before for before, more in zip(asked, now, strict=True))

        # 15 s to detect, and 5 s to deliver to who is there.
        assert scene.wait(lambda: "webhook" in told(), 20), "the webhook waited for the others"
        assert scene.wait(tried, 5), "a receiver that is down was not even asked"
        assert told() == {"webhook"}
        for outage in outages:
            outage.mend()
        expect_page(VERDICT, deliver=75)
