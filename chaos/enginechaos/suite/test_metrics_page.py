"""The page is empty, or never comes: neither is taken for an engine that is well."""

from __future__ import annotations

import pytest

from enginechaos.faults import EmptyPage, HungScrape

pytestmark = pytest.mark.tiers("sim")


@pytest.fixture(scope="module")
def target(proxy):
    return proxy.target


@pytest.mark.hazard(
    "metrics_untrusted",
    certifies="a page of nothing, answered with 200, is no silence",
    but_not="a page that is cut off in the middle",
)
def test_an_empty_page_is_a_ticket(induce, expect_page, proxy):
    with induce(EmptyPage(proxy)):
        expect_page("metrics_untrusted", severity="ticket", within=90)


@pytest.mark.hazard(
    "engine_dead",
    certifies="a page that never comes is paged, although requests are served",
    but_not="which of the two, engine or network, is to blame",
)
def test_a_hung_scrape_is_paged(induce, expect_page, proxy):
    with induce(HungScrape(proxy)):
        expect_page("engine_dead", within=90)
