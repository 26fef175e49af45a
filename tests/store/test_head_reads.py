"""Which series a selector means, how long a layout lasts, and series with several writers."""

from __future__ import annotations

import weakref

import pytest
from tests.store.reference import Scraper

from enginewatch.model import (
    METRIC_NAME,
    STALE_NAN,
    Labels,
    Matcher,
    MatchOp,
    Metadata,
    MetricType,
    Millis,
)
from enginewatch.store.base import Storage
from enginewatch.store.core import Refusal
from enginewatch.store.head import Head

MINUTE = 60_000


def series(name: str, **labels: str) -> Labels:
    return Labels({METRIC_NAME: name}, **labels)


def selector(*parts: tuple[str, str, str]) -> tuple[Matcher, ...]:
    return tuple(Matcher(label, MatchOp(op), value) for label, op, value in parts)


def name(metric: str) -> tuple[Matcher, ...]:
    return selector((METRIC_NAME, "=", metric))


def samples(head: Head, metric: str, after: Millis, upto: Millis) -> list[tuple[Millis, float]]:
    found = head.window(name(metric), after, upto)
    count = int(found.counts[0])
    return list(zip(found.times[0, :count].tolist(), found.values[0, :count].tolist(), strict=True))


def test_the_head_is_a_storage() -> None:
    storage: Storage = Head()
    assert storage.series(name("up")) == ()


def test_an_empty_head_answers_with_nothing() -> None:
    head = Head()
    assert len(head.instant(name("up"), 0, MINUTE).layout) == 0
    assert head.window(name("up"), 0, MINUTE).values.shape == (0, 0)
    assert head.series(name("up"), 0, MINUTE) == []
    assert head.metadata() == {}
    assert head.stats()[:6] == (0, 0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("matchers", "found"),
    [
        ([(METRIC_NAME, "=", "a")], ['a{x="1"}', 'a{x="2"}', "a"]),
        ([(METRIC_NAME, "=", "a"), ("x", "=", "1")], ['a{x="1"}']),
        ([(METRIC_NAME, "=", "a"), ("x", "=", "")], ["a"]),
        ([(METRIC_NAME, "=", "a"), ("x", "!=", "1")], ['a{x="2"}', "a"]),
        ([(METRIC_NAME, "=", "a"), ("x", "=~", ".+")], ['a{x="1"}', 'a{x="2"}']),
        ([(METRIC_NAME, "=", "a"), ("x", "!~", "1|2")], ["a"]),
        ([(METRIC_NAME, "=~", "a|b"), ("x", "=", "1")], ['a{x="1"}', 'b{x="1"}']),
        ([(METRIC_NAME, "!=", "a")], ['b{x="1"}']),
        ([("x", "=", "1")], ['a{x="1"}', 'b{x="1"}']),
        ([(METRIC_NAME, "=", "a"), (METRIC_NAME, "=", "b")], []),
        ([(METRIC_NAME, "=", "c")], []),
    ],
)
def test_selectors(matchers: list[tuple[str, str, str]], found: list[str]) -> None:
    head = Head()
    head_series = [series("a", x="1"), series("b", x="1")]
    late_series = [series("a", x="2"), series("a")]
    wanted = selector(*matchers)
    target = Scraper(head, 1)
    target.scrape(0, [(labels, 1.0) for labels in head_series])
    head.series(wanted)  # so that the others come to a selection that exists
    target.scrape(1, [(labels, 1.0) for labels in head_series + late_series])
    names = [str(labels) for labels in head.series(wanted)]
    assert sorted(names) == sorted(found)


def test_a_layout_lasts_while_its_set_of_series_is_the_same() -> None:
    head = Head(keep=lambda _: MINUTE)
    target = Scraper(head, 1)
    one, two, other = series("a", x="1"), series("a", x="2"), series("b")
    target.scrape(0, [(one, 1.0)])
    first = head.instant(name("a"), 0, MINUTE).layout
    first.derive("key", lambda: "kept")
    for at in range(1000, 100_000, 1000):  # grows, wraps, and a series of another name
        target.scrape(at, [(one, 1.0), (other, 1.0)])
        assert head.instant(name("a"), at, MINUTE).layout is first
        assert head.window(name("a"), at - 5, at).layout is first
    target.scrape(100_000, [(one, 1.0), (two, 1.0)])
    second = head.instant(name("a"), 100_000, MINUTE).layout
    assert second.labels == (one, two)
    target.scrape(101_000, [(one, 1.0)])
    assert head.instant(name("a"), 101_000, MINUTE).layout is second, "ended, not forgotten"
    for at in range(102_000, 200_000, 1000):
        target.scrape(at, [(one, 1.0)])
    assert head.instant(name("a"), 200_000, MINUTE).layout.labels == (one,)


def test_many_ad_hoc_selectors_do_not_make_a_rule_lose_its_layout() -> None:
    head = Head()
    Scraper(head, 1).scrape(0, [(series("a", x="1"), 1.0)])
    layout = head.instant(name("a"), 0, MINUTE).layout
    for n in range(10_000):
        head.series(selector((METRIC_NAME, "=", "a"), ("x", "!=", str(n + 2))))
        if n % 1000 == 0:
            assert head.instant(name("a"), 0, MINUTE).layout is layout


def test_layouts_of_ad_hoc_selectors_do_not_pile_up() -> None:
    head = Head()
    Scraper(head, 1).scrape(0, [(series("a", x=str(n)), 1.0) for n in range(2000)])
    layouts = []
    for n in range(150):
        found = head.instant(selector(("x", "!=", f"no{n}")), 0, MINUTE)
        layouts.append(weakref.ref(found.layout))
    del found
    assert sum(layout() is not None for layout in layouts) < 60
    assert layouts[-1]() is not None


def test_series_between_times_are_those_with_a_sample_there() -> None:
    head = Head()
    target = Scraper(head, 1)
    target.scrape(10, [(series("a", x="1"), 1.0), (series("a", x="2"), 1.0)])
    target.scrape(20, [(series("a", x="1"), 1.0)])
    assert head.series(name("a"), 10, 20) == [series("a", x="1")]
    assert head.series(name("a"), 9, None) == [series("a", x="1"), series("a", x="2")]
    assert head.series(name("a"), None, 9) == []


def test_sources_of_different_pace_and_start_are_read_in_one_answer() -> None:
    head = Head()
    fast, slow = Scraper(head, "fast"), Scraper(head, "slow")
    for at in range(0, 600_000, 1000):
        fast.scrape(at, [(series("a", x="fast"), float(at))])
        if at % 60_000 == 30_000:
            slow.scrape(at, [(series("a", x="slow"), float(at))])
    found = head.window(name("a"), 299_000, 599_000)
    counts = {
        labels["x"]: int(n) for labels, n in zip(found.layout.labels, found.counts, strict=True)
    }
    assert counts == {"fast": 300, "slow": 5}
    now = head.instant(name("a"), 599_000, 300_000)
    times = {labels["x"]: int(t) for labels, t in zip(now.layout.labels, now.times, strict=True)}
    assert times == {"fast": 599_000, "slow": 570_000}
    for i, labels in enumerate(found.layout.labels):
        row = found.times[i, : found.counts[i]]
        assert (found.values[i, : found.counts[i]] == row).all(), labels


def test_a_gap_in_the_middle_of_a_window_is_closed() -> None:
    head = Head()
    target = Scraper(head, 1)
    steady, gappy = series("a", x="steady"), series("a", x="gappy")
    for at in range(10):
        here = [(steady, float(at))] if 3 <= at < 6 else [(gappy, float(at)), (steady, float(at))]
        target.scrape(at, here)
    found = head.window(name("a"), -1, 9)
    rows = {
        labels["x"]: found.values[i, : found.counts[i]].tolist()
        for i, labels in enumerate(found.layout.labels)
    }
    assert rows["gappy"] == [0, 1, 2, 6, 7, 8, 9]
    assert rows["steady"] == list(range(10))


def test_two_sources_of_one_label_set_make_one_series() -> None:
    head = Head()
    one, two = Scraper(head, 1), Scraper(head, 2)
    for at in range(0, 10, 2):
        one.scrape(at, [(series("a"), 1.0)])
        two.scrape(at + 1, [(series("a"), 2.0)])
    assert len(head.instant(name("a"), 9, 5).layout) == 1
    assert samples(head, "a", 5, 9) == [(6, 1.0), (7, 2.0), (8, 1.0), (9, 2.0)]
    assert head.instant(name("a"), 9, 5).values.tolist() == [2.0]
    assert head.instant(name("a"), 8, 5).values.tolist() == [1.0]
    assert head.stats().shared == 1


@pytest.mark.parametrize(
    ("former", "latter", "expected"),
    [(1.0, 2.0, [1.0]), (STALE_NAN, 2.0, [2.0]), (1.0, STALE_NAN, [1.0]), (STALE_NAN,) * 2 + ([],)],
)
def test_at_one_time_a_sample_goes_before_an_end_and_a_former_source_before_a_latter(
    former: float, latter: float, expected: list[float]
) -> None:
    head = Head()
    sources = Scraper(head, 1), Scraper(head, 2)
    for source in sources:
        source.scrape(0, [(series("a"), 0.0)])
    for source, value in zip(sources, (former, latter), strict=True):
        source.scrape(1, [(series("a"), value)])
    now = head.instant(name("a"), 1, 5)
    assert now.values[now.present].tolist() == expected
    assert [value for at, value in samples(head, "a", 0, 1)] == expected


def test_a_series_handed_over_to_another_source_goes_on() -> None:
    head = Head(keep=lambda _: MINUTE)
    old, new = Scraper(head, "old"), Scraper(head, "new")
    for at in range(0, 10_000, 1000):
        old.scrape(at, [(series("a"), float(at))])
    layout = head.instant(name("a"), 9000, MINUTE).layout
    old.source.remove(10_000)
    for at in range(10_000, 100_000, 1000):
        new.scrape(at, [(series("a"), float(at))])
        now = head.instant(name("a"), at, MINUTE)
        assert now.layout is layout
        assert now.values.tolist() == [at]
        expected = range(max(at - MINUTE, -1000) + 1000, at + 1, 1000)
        assert samples(head, "a", at - MINUTE, at) == [(t, float(t)) for t in expected]
    assert (head.stats().shared, head.stats().sources) == (0, 1)


def test_metadata_is_what_was_last_seen_and_bounded() -> None:
    head = Head()
    gauge = Metadata(MetricType.GAUGE, "help", "")
    head.update_metadata({"a": gauge, "b": gauge})
    head.update_metadata({"a": gauge._replace(help="new")})
    assert head.metadata() == {"a": gauge._replace(help="new"), "b": gauge}
    head.update_metadata({f"n{n}": gauge for n in range(30_000)})
    assert len(head.metadata()) <= 10_000
    assert "n29999" in head.metadata()


def test_stats_count_what_is_held_and_what_was_refused() -> None:
    head = Head()
    target = Scraper(head, 1)
    target.scrape(0, [(series("a"), 1.0), (series("b"), 1.0), (series("b"), 1.0)])
    target.scrape(0, [(series("a"), 1.0)])
    stats = head.stats()
    assert (stats.sources, stats.series, stats.cells, stats.appended) == (1, 2, 2, 2)
    assert stats.bytes > 0
    assert {reason: n for reason, n in stats.refused.items() if n} == {
        Refusal.DUPLICATE: 1,
        Refusal.LATE: 1,
    }
