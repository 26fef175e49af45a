"""Rules are loaded anew: other metrics are kept, or for other times, and no sample is lost."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.store.reference import Scraper

from enginewatch.model import METRIC_NAME, Labels, Matcher, MatchOp, Millis
from enginewatch.store.head import Head

MINUTE = 60_000
SERIES = [
    Labels({METRIC_NAME: name, "instance": i}) for name in ("a", "b", "c") for i in ("1", "2")
]


def count(head: Head, name: str, at: Millis, back: Millis) -> list[int]:
    found = head.window((Matcher(METRIC_NAME, MatchOp.EQUAL, name),), at - back, at)
    for row, size in zip(found.times, found.counts, strict=True):
        assert (row[1:size] - row[: size - 1] == 1000).all()
    return [int(size) for size in found.counts]


def filled(keep: Mapping[str, Millis], seconds: int) -> tuple[Head, Scraper]:
    head = Head(keep=keep.get)
    target = Scraper(head, "t")
    for at in range(0, seconds * 1000, 1000):
        target.scrape(at, [(labels, float(at)) for labels in SERIES])
    return head, target


def scrape(target: Scraper, first: int, last: int) -> None:
    for at in range(first * 1000, last * 1000, 1000):
        target.scrape(at, [(labels, float(at)) for labels in SERIES])


def test_metrics_that_are_not_kept_are_not_resolved() -> None:
    head, target = filled({"a": MINUTE}, 10)
    assert head.stats().series == 2
    assert target.source.resolve(SERIES[-1]) is None


def test_a_metric_that_rules_now_ask_for_is_kept_from_the_next_round_on() -> None:
    head, target = filled({"a": MINUTE}, 100)
    head.reconfigure({"a": MINUTE, "b": MINUTE}.get)
    scrape(target, 100, 120)
    assert count(head, "a", 119_000, MINUTE) == [60, 60]
    assert count(head, "b", 119_000, MINUTE) == [20, 20]


def test_a_metric_that_no_rule_asks_for_is_dropped_with_its_memory() -> None:
    head, target = filled({"a": MINUTE, "b": 10 * MINUTE}, 700)
    before = head.stats().bytes
    layout = head.instant((Matcher(METRIC_NAME, MatchOp.EQUAL, "b"),), 699_000, MINUTE).layout
    assert len(layout) == 2
    head.reconfigure({"a": MINUTE}.get)
    assert head.series((Matcher(METRIC_NAME, MatchOp.EQUAL, "b"),)) == ()
    assert head.stats().bytes < before / 2
    scrape(target, 700, 720)
    assert count(head, "a", 719_000, MINUTE) == [60, 60]
    assert head.stats().series == 2


@pytest.mark.parametrize("longer", ["a", "ab", "abc"])
def test_a_longer_retention_keeps_the_samples_there_are(longer: str) -> None:
    head, target = filled(dict.fromkeys("abc", MINUTE), 100)
    head.reconfigure({name: 5 * MINUTE if name in longer else MINUTE for name in "abc"}.get)
    scrape(target, 100, 500)
    for name in "abc":
        back = 5 * MINUTE if name in longer else MINUTE
        assert count(head, name, 499_000, back) == [back // 1000] * 2
    head, target = filled(dict.fromkeys("abc", MINUTE), 100)
    head.reconfigure(dict.fromkeys(longer, 5 * MINUTE).get)
    scrape(target, 100, 110)
    assert count(head, "a", 109_000, 5 * MINUTE)[0] >= 70


def test_a_shorter_retention_gives_memory_back() -> None:
    head, target = filled(dict.fromkeys("abc", 30 * MINUTE), 1800)
    before = head.stats().bytes
    head.reconfigure(dict.fromkeys("abc", MINUTE).get)
    assert head.stats().bytes < before / 5
    assert count(head, "c", 1_799_000, MINUTE) == [60, 60]
    scrape(target, 1800, 1900)
    assert count(head, "c", 1_899_000, MINUTE) == [60, 60]


def test_metrics_may_join_others_of_another_retention_and_part_again() -> None:
    head, target = filled({"a": MINUTE, "b": 2 * MINUTE, "c": 5 * MINUTE}, 400)
    head.reconfigure({"a": 5 * MINUTE, "b": 5 * MINUTE, "c": MINUTE}.get)
    assert count(head, "a", 399_000, MINUTE) == [60, 60]
    assert count(head, "b", 399_000, 2 * MINUTE) == [120, 120]
    assert count(head, "c", 399_000, MINUTE) == [60, 60]
    scrape(target, 400, 800)
    for name, back in [("a", 5 * MINUTE), ("b", 5 * MINUTE), ("c", MINUTE)]:
        assert count(head, name, 799_000, back) == [back // 1000] * 2
    head.reconfigure({"a": MINUTE, "b": 5 * MINUTE}.get)
    assert count(head, "b", 799_000, 5 * MINUTE) == [300, 300]


def test_a_removed_source_is_sorted_anew_too() -> None:
    head, target = filled({"a": MINUTE, "b": MINUTE}, 50)
    target.source.remove()
    head.reconfigure({"a": 10 * MINUTE}.get)
    assert count(head, "a", 49_000, MINUTE) == [50, 50]
    head.reconfigure(lambda _: None)
    assert (head.stats().sources, head.stats().series) == (0, 0)


def test_series_that_wait_for_their_first_sample_survive_a_reload() -> None:
    head = Head(keep={"a": MINUTE, "b": MINUTE}.get)
    target = Scraper(head, "t")
    kept, dropped = target.source.resolve(SERIES[0]), target.source.resolve(SERIES[2])
    head.reconfigure({"a": 5 * MINUTE}.get)
    assert target.source.resolve(SERIES[0]) == kept
    assert target.source.resolve(SERIES[2]) is None
    assert dropped is not None
    scrape(target, 0, 200)
    assert count(head, "a", 199_000, 5 * MINUTE) == [200, 200]


def test_a_shared_series_keeps_both_its_writers() -> None:
    head = Head(keep={"a": MINUTE}.get)
    one, two = Scraper(head, 1), Scraper(head, 2)
    for at in range(0, 40_000, 2000):
        one.scrape(at, [(SERIES[0], 1.0)])
        two.scrape(at + 1000, [(SERIES[0], 2.0)])
    head.reconfigure({"a": 5 * MINUTE}.get)
    for at in range(40_000, 80_000, 2000):
        one.scrape(at, [(SERIES[0], 1.0)])
        two.scrape(at + 1000, [(SERIES[0], 2.0)])
    assert count(head, "a", 79_000, 5 * MINUTE) == [80]
    assert head.stats().shared == 1
