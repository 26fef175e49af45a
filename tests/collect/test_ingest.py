"""Scrapes become samples under the target's labels, and series end when the page drops them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from enginewatch.collect.ingest import Ingest, Outcome, merge_labels
from enginewatch.exposition import PageReader
from enginewatch.model import Labels, Matcher, MatchOp, Metadata, Millis
from enginewatch.recording import ScrapeEvent
from enginewatch.store.head import Head

TARGET = Labels(instance="a:8000", job="vllm", deployment="llama")
MINUTE: Millis = 60_000


class Rig:
    """A head with one target; scrapes come 5 s apart."""

    def __init__(self, **options: object):
        self.described: list[Mapping[str, Metadata]] = []
        self.head = Head(keep=lambda name: None if name.startswith("other") else MINUTE)
        self.ingest = Ingest(
            TARGET, self.head.source("a"), PageReader(), describe=self.described.append, **options
        )
        self.now: Millis = 1_000_000

    def scrape(self, page: str | None, error: str = "") -> object:
        self.now += 5_000
        body = None if page is None else page.encode()
        return self.ingest.take(ScrapeEvent(TARGET, self.now, body, 0.25, 200, "", error))

    def values(self, name: str) -> dict[Labels, float]:
        """What is there now, by the labels that are not the target's."""
        found = self.head.instant([Matcher("__name__", MatchOp.EQUAL, name)], self.now, MINUTE)
        return {
            found.layout.labels[i].without("__name__", *TARGET): float(found.values[i])
            for i in np.flatnonzero(found.present)
        }

    def value(self, name: str) -> float | None:
        return self.values(name).get(Labels())


def test_a_page_becomes_samples_with_a_report() -> None:
    rig = Rig()
    outcome = rig.scrape('# HELP a x\na{x="1"} 1\na{x="2"} 2\nother 5\n')
    assert rig.values("a") == {Labels(x="1"): 1, Labels(x="2"): 2}
    assert rig.values("other") == {}
    assert rig.value("up") == 1
    assert rig.value("scrape_duration_seconds") == 0.25
    assert rig.value("scrape_samples_scraped") == 3
    assert rig.value("scrape_series_added") == 3
    assert outcome == Outcome("", "", 3, 3)
    assert [list(families) for families in rig.described] == [["a"]]


def test_a_series_that_vanishes_is_stale_at_once() -> None:
    rig = Rig()
    rig.scrape('a{x="1"} 1\na{x="2"} 2\n')
    rig.scrape('a{x="2"} 3\n')
    assert rig.values("a") == {Labels(x="2"): 3}
    assert rig.value("scrape_series_added") == 0
    rig.scrape('a{x="2"} 3\na{x="1"} 4\n')
    assert rig.values("a") == {Labels(x="2"): 3, Labels(x="1"): 4}
    assert rig.value("scrape_series_added") == 1


@pytest.mark.parametrize(
    ("page", "error", "told"),
    [(None, "connection refused", "connection refused"), ("a 1\na b\n", "", "line 2: 'b' is not")],
)
def test_a_failed_scrape_makes_all_stale(page: str | None, error: str, told: str) -> None:
    rig = Rig()
    rig.scrape("a 1\n")
    outcome = rig.scrape(page, error)
    assert told in str(outcome)
    assert rig.value("a") is None
    assert rig.value("up") == 0
    assert rig.value("scrape_duration_seconds") == 0.25
    assert rig.value("scrape_samples_scraped") == 0
    rig.scrape("a 2\n")
    assert (rig.value("a"), rig.value("up"), rig.value("scrape_series_added")) == (2, 1, 0)


def test_an_empty_page_is_up_with_a_warning() -> None:
    # As in Prometheus, so that one rule, on scrape_samples_scraped, serves in both.
    rig = Rig()
    outcome = rig.scrape("")
    assert outcome == Outcome("", "the page has no samples", 0, 0)
    assert (rig.value("up"), rig.value("scrape_samples_scraped")) == (1, 0)


def test_timestamps_on_the_page_are_not_used() -> None:
    rig = Rig()
    rig.scrape("a 1 5\nb 2\n")
    assert (rig.value("a"), rig.value("b")) == (1, 2)


def test_duplicates_keep_the_first_and_are_told() -> None:
    rig = Rig()
    # The third is one only under the target's labels.
    outcome = rig.scrape('a{instance="x"} 1\na{instance="x"} 2\na{exported_instance="x"} 3\n')
    assert rig.values("a") == {Labels(exported_instance="x"): 1}
    assert "2 samples of series that the page already had" in str(outcome)


def test_a_page_can_not_forge_its_own_report() -> None:
    rig = Rig(honor_labels=True)
    rig.scrape("up 0\nscrape_samples_scraped 99\n")
    assert (rig.value("up"), rig.value("scrape_samples_scraped")) == (1, 2)


def test_the_store_may_forget_and_refs_are_asked_for_again() -> None:
    rig = Rig()
    rig.scrape("a 1\nother 2\n")
    rig.head.reconfigure(lambda name: MINUTE if name in ("other", "up") else None)
    rig.scrape("a 1\nother 2\n")
    assert (rig.value("a"), rig.value("other"), rig.value("up")) == (None, 2, 1)


def test_series_that_are_not_wanted_are_counted_all_the_same() -> None:
    rig = Rig(wanted=lambda name: name == "a")
    outcome = rig.scrape("a 1\nb 2\n")
    assert outcome == Outcome("", "", 2, 2)
    assert rig.values("b") == {}


@pytest.mark.parametrize(
    ("exposed", "honor", "merged"),
    [
        ({"x": "1"}, False, {"x": "1", "job": "j", "instance": "i"}),
        ({"job": "p"}, False, {"exported_job": "p", "job": "j", "instance": "i"}),
        ({"job": "p"}, True, {"job": "p", "instance": "i"}),
        (
            {"job": "p", "exported_job": "q"},
            False,
            {"exported_exported_job": "p", "exported_job": "q", "job": "j", "instance": "i"},
        ),
    ],
)
def test_conflicting_labels(exposed: dict[str, str], honor: bool, merged: dict[str, str]) -> None:
    # The cases of Prometheus' scrape/scrape_test.go and its documentation of honor_labels.
    target = Labels(job="j", instance="i")
    assert merge_labels(Labels(exposed), target, honor=honor) == Labels(merged)


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (ScrapeEvent(TARGET, 1000, None, error="refused", reason="connect"), "connect"),
        (ScrapeEvent(TARGET, 1000, None, error="late", reason="timeout"), "timeout"),
        (ScrapeEvent(TARGET, 1000, b"<html>"), "format"),
        (ScrapeEvent(TARGET, 1000, b'{"a": 1}'), "format"),
        (ScrapeEvent(TARGET, 1000, b"up {\n"), "parse"),
        (ScrapeEvent(TARGET, 1000, b"up 1\n" * 300_000), "too_large"),
    ],
)
def test_why_a_scrape_failed_is_a_series_until_one_goes_well(
    event: ScrapeEvent, reason: str
) -> None:
    head = Head()
    ingest = Ingest(TARGET, head.source("t"), PageReader())
    assert ingest.take(event).reason == reason
    failing = (Matcher("__name__", MatchOp.EQUAL, "enginewatch_scrape_error"),)
    found = head.instant(failing, 1000, 300_000)
    (labels,) = found.layout.labels
    assert labels["reason"] == reason
    assert found.present.all()
    ingest.take(ScrapeEvent(TARGET, 6000, b"x 1\n"))
    assert not head.instant(failing, 6000, 300_000).present.any()
