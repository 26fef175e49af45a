"""Controls: what must stay silent stays silent, and what went wrong is not called a pass."""

from __future__ import annotations

import time

import pytest

from enginechaos.errors import Inconclusive, NotDetected
from enginechaos.faults import NoFault, StoppedRank


@pytest.mark.hazard("benign", certifies="ordinary load alone pages nobody")
def test_the_load_alone_is_silent(induce, expect_quiet):
    with induce(NoFault()):
        expect_quiet()


@pytest.mark.tiers("sim")
@pytest.mark.hazard("benign", certifies="a rank that is stopped for two seconds pages nobody")
def test_a_near_miss_is_silent(induce, expect_silence):
    with induce(StoppedRank(rank=1)):
        time.sleep(2)
    with induce(NoFault()):
        expect_silence(20)


@pytest.mark.tiers("sim")
@pytest.mark.hazard("benign", certifies="a fault in another engine is reported as not detected")
def test_a_fault_aimed_elsewhere_is_not_called_detected(induce, expect_page, engine):
    decoy = engine("decoy").target
    with induce(StoppedRank(rank=1, of=decoy)), pytest.raises(NotDetected):
        expect_page("collective_hang")


class NothingHappens(StoppedRank):
    """An injector that is broken: it says that it did it."""

    verify_within = 2.0

    def inject(self, target):
        pass


@pytest.mark.tiers("sim")
@pytest.mark.hazard("benign", certifies="an injection without evidence is no pass and no fail")
def test_an_unverified_injection_is_inconclusive(induce, expect_page):
    with pytest.raises(Inconclusive), induce(NothingHappens()):
        expect_page("collective_hang")
