"""What a reader sees after each kind of round: kept, missed, failed, late, or of another clock."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.store.reference import Scraper

from enginewatch.model import METRIC_NAME, STALE_NAN, Labels, Matcher, MatchOp, Millis
from enginewatch.store.core import Refusal
from enginewatch.store.head import Head

T = 1_700_000_000_000
SECOND = 1000
MINUTE = 60 * SECOND
LOOKBACK = 5 * MINUTE
HOUR = 60 * MINUTE
DAY = 24 * HOUR

UP = Labels({METRIC_NAME: "up", "instance": "a:1"})
RUNNING = Labels({METRIC_NAME: "running", "instance": "a:1"})
WAITING = Labels({METRIC_NAME: "waiting", "instance": "a:1"})
ANY = (Matcher(METRIC_NAME, MatchOp.NOT_EQUAL, ""),)


def now_at(head: Head, at: Millis, lookback: Millis = LOOKBACK) -> dict[str, float]:
    """Present values by metric name."""
    found = head.instant(ANY, at, lookback)
    named = zip(found.layout.labels, found.values.tolist(), found.present, strict=True)
    return {labels.name: value for labels, value, present in named if present}


def history(head: Head, name: str, after: Millis, upto: Millis) -> list[tuple[Millis, float]]:
    """Samples of the only series of a metric, times relative to `T` in seconds."""
    found = head.window((Matcher(METRIC_NAME, MatchOp.EQUAL, name),), after, upto)
    if not len(found.layout):
        return []
    count = int(found.counts[0])
    times = ((found.times[0, :count] - T) / SECOND).tolist()
    return list(zip(times, found.values[0, :count].tolist(), strict=True))


def test_a_sample_is_read_until_the_lookback_is_over() -> None:
    head = Head()
    Scraper(head, "a").scrape(T, [(UP, 1.0)])
    for after, seen in [(-1, {}), (0, {"up": 1.0}), (LOOKBACK - 1, {"up": 1.0}), (LOOKBACK, {})]:
        assert now_at(head, T + after) == seen


def test_windows_leave_out_their_left_edge_and_keep_their_right() -> None:
    head = Head()
    target = Scraper(head, "a")
    for k in range(5):
        target.scrape(T + k * SECOND, [(UP, float(k))])
    assert history(head, "up", T + SECOND, T + 3 * SECOND) == [(2, 2.0), (3, 3.0)]
    assert history(head, "up", T + 3 * SECOND, T + SECOND) == []
    assert history(head, "up", T - HOUR, T - 1) == []
    assert len(history(head, "up", T - HOUR, T + HOUR)) == 5


def test_a_series_that_is_no_longer_on_the_page_ends_at_once_and_may_return() -> None:
    head = Head()
    target = Scraper(head, "a")
    both = [(RUNNING, 3.0), (WAITING, 7.0)]
    assert target.scrape(T, both) == (2, 0, 0, 0, 0, 0)
    assert target.scrape(T + 5000, [(RUNNING, 4.0)]).ended == 1
    assert now_at(head, T + 4999) == {"running": 3.0, "waiting": 7.0}
    assert now_at(head, T + 5000) == {"running": 4.0}
    assert target.scrape(T + 10_000, [(RUNNING, 4.0)]).ended == 0, "it ends once"
    target.scrape(T + 15_000, both)
    assert now_at(head, T + 15_000) == {"running": 3.0, "waiting": 7.0}
    assert history(head, "waiting", T - 1, T + HOUR) == [(0, 7.0), (15, 7.0)]


def test_a_failed_scrape_ends_all_series_and_the_next_good_one_brings_them_back() -> None:
    head = Head()
    target, meta = Scraper(head, "a"), Scraper(head, ("a", "meta"))
    for at, up in [(T, 1.0), (T + 5000, 0.0), (T + 10_000, 0.0), (T + 15_000, 1.0)]:
        meta.scrape(at, [(UP, up)])
        if up:
            target.scrape(at, [(RUNNING, 2.0)])
        else:
            target.source.stale(at)
        assert now_at(head, at) == ({"up": 1.0, "running": 2.0} if up else {"up": 0.0})
    assert history(head, "running", T - 1, T + HOUR) == [(0, 2.0), (15, 2.0)]


def test_a_scrape_that_never_came_leaves_the_last_sample_until_the_lookback_is_over() -> None:
    head = Head()
    target = Scraper(head, "a")
    target.scrape(T, [(RUNNING, 2.0)])
    assert now_at(head, T + 4 * MINUTE) == {"running": 2.0}
    target.scrape(T + 6 * MINUTE, [(RUNNING, 3.0)])
    assert now_at(head, T + 5 * MINUTE + 30_000) == {}
    assert now_at(head, T + 6 * MINUTE) == {"running": 3.0}


def test_a_restarted_engine_with_other_labels_ends_the_old_series() -> None:
    head = Head()
    target = Scraper(head, "a")
    for k, model in enumerate(["m1", "m1", "m2"]):
        target.scrape(T + k * SECOND, [(Labels({METRIC_NAME: "info", "model": model}), 1.0)])
    found = head.instant(ANY, T + 2 * SECOND, LOOKBACK)
    alive = [
        labels["model"] for labels, p in zip(found.layout.labels, found.present, strict=True) if p
    ]
    assert alive == ["m2"]


@pytest.mark.parametrize("value", [math.nan, -math.nan, math.inf, -math.inf, -0.0, 5e-324])
def test_any_float_but_the_marker_is_a_sample(value: float) -> None:
    head = Head()
    target = Scraper(head, "a")
    for k in range(3):
        assert target.scrape(T + k, [(UP, value)]).stored == 1
    (read,) = now_at(head, T + 2).values()
    assert np.float64(read).tobytes() == np.float64(value).tobytes()
    assert len(history(head, "up", T - 1, T + 2)) == 3


def test_a_marker_among_the_values_ends_its_series() -> None:
    head = Head()
    target = Scraper(head, "a")
    target.scrape(T, [(RUNNING, 1.0), (WAITING, STALE_NAN)])
    assert now_at(head, T) == {"running": 1.0}
    assert head.stats().series == 1, "a series begins with a sample"
    assert target.scrape(T + 1, [(RUNNING, STALE_NAN), (WAITING, 1.0)]).ended == 1
    assert now_at(head, T + 1) == {"waiting": 1.0}


def test_of_two_samples_of_a_series_in_a_round_the_first_counts() -> None:
    head = Head()
    target = Scraper(head, "a")
    for at in (T, T + 1):
        result = target.scrape(at, [(RUNNING, 1.0), (UP, 1.0), (RUNNING, 2.0), (RUNNING, 3.0)])
        assert (result.stored, result.duplicate) == (2, 2)
        assert now_at(head, at) == {"running": 1.0, "up": 1.0}
    assert head.stats().refused[Refusal.DUPLICATE] == 4


@pytest.mark.parametrize("back", [0, 1, 9999, 10_000])
def test_a_late_round_is_refused_and_counted(back: Millis) -> None:
    head = Head(step_tolerance=10_000)
    target = Scraper(head, "a")
    target.scrape(T, [(RUNNING, 1.0)])
    result = target.scrape(T - back, [(RUNNING, 2.0), (WAITING, 2.0)])
    assert (result.stored, result.late) == (0, 2)
    assert now_at(head, T) == {"running": 1.0}
    assert head.stats().refused[Refusal.LATE] == 2
    target.source.stale(T - back)
    assert now_at(head, T) == {"running": 1.0}, "a late failure ends nothing"


def test_a_clock_that_is_set_back_does_not_blind() -> None:
    head = Head(step_tolerance=10_000)
    target = Scraper(head, "a")
    for k in range(100):
        target.scrape(T + k * SECOND, [(RUNNING, float(k)), (WAITING, 0.0)])
    back = T + 50 * SECOND
    assert target.scrape(back, [(RUNNING, 500.0)]) == (1, 1, 0, 0, 0, 0)
    assert now_at(head, back) == {"running": 500.0}, "the new sample is seen at once"
    assert history(head, "running", T + 47 * SECOND, T + DAY) == [
        (48, 48.0),
        (49, 49.0),
        (50, 500.0),
    ]
    for k in range(51, 120):
        target.scrape(T + k * SECOND, [(RUNNING, 500.0)])
        assert now_at(head, T + k * SECOND) == {"running": 500.0}
    assert history(head, "waiting", T - 1, T + DAY)[-1] == (49, 0.0)
    assert head.stats().steps == 1


def test_after_a_step_back_beyond_all_history_only_new_samples_are_left() -> None:
    head = Head()
    target = Scraper(head, "a")
    target.scrape(T, [(RUNNING, 1.0), (WAITING, 1.0)])
    target.scrape(T - DAY, [(RUNNING, 2.0)])
    assert now_at(head, T - DAY) == {"running": 2.0}
    assert now_at(head, T) == {}
    target.scrape(T - DAY + 1, [(RUNNING, 3.0), (WAITING, 3.0)])
    assert now_at(head, T - DAY + 1) == {"running": 3.0, "waiting": 3.0}


def test_a_failed_scrape_may_be_the_first_to_notice_a_step_back() -> None:
    head = Head()
    target = Scraper(head, "a")
    for k in range(3):
        target.scrape(T + k * MINUTE, [(RUNNING, float(k))])
    target.source.stale(T + 90 * SECOND)
    assert now_at(head, T + 89 * SECOND) == {"running": 1.0}
    assert now_at(head, T + 90 * SECOND) == {}


def test_what_a_removed_source_wrote_in_the_future_never_comes_to_pass() -> None:
    head = Head()
    gone, target = Scraper(head, "gone"), Scraper(head, "a")
    for k in range(10):
        gone.scrape(T + k * MINUTE, [(WAITING, 1.0)])
        target.scrape(T + k * MINUTE, [(RUNNING, 1.0)])
    gone.source.remove(T + 10 * MINUTE)
    for k in range(5, 12):
        target.scrape(T + k * MINUTE, [(RUNNING, 1.0)])
        assert now_at(head, T + k * MINUTE) == {"running": 1.0}
    assert history(head, "waiting", T, T + DAY) == [(k * 60.0, 1.0) for k in range(1, 5)]


def test_a_clock_that_glitches_forward_and_back_costs_one_round() -> None:
    head = Head()
    target = Scraper(head, "a")
    for k in range(700):
        target.scrape(T + k * 5 * SECOND, [(RUNNING, float(k))])
    target.scrape(T + DAY, [(RUNNING, -1.0)])
    now = T + 700 * 5 * SECOND
    target.scrape(now, [(RUNNING, 700.0)])
    assert now_at(head, now) == {"running": 700.0}
    assert len(history(head, "running", now - HOUR + 6000, now)) >= 698
    assert history(head, "running", now, T + 2 * DAY) == []


def test_a_removed_source_ends_and_is_readable_until_its_retention_is_over() -> None:
    head = Head(keep=lambda name: 10 * MINUTE)
    gone, target = Scraper(head, "gone"), Scraper(head, "a")
    gone.scrape(T, [(WAITING, 1.0)])
    gone.source.remove()
    assert now_at(head, T) == {"waiting": 1.0}
    assert now_at(head, T + 1) == {}
    target.scrape(T + 9 * MINUTE, [(RUNNING, 1.0)])
    assert history(head, "waiting", T - 1, T) == [(0, 1.0)]
    target.scrape(T + 11 * MINUTE, [(RUNNING, 1.0)])
    assert (head.stats().series, head.stats().sources) == (1, 1)
    assert history(head, "waiting", T - 1, T) == []


def test_a_scrape_in_flight_when_its_target_is_removed_is_refused() -> None:
    head = Head()
    gone = Scraper(head, "gone")
    gone.scrape(T, [(WAITING, 1.0)])
    gone.source.remove(T + 1)
    assert gone.scrape(T + 2, [(WAITING, 1.0)]).removed == 1
    assert now_at(head, T + 2) == {}
    assert head.stats().refused[Refusal.REMOVED] == 1


def test_a_source_that_comes_back_goes_on_with_its_history() -> None:
    head = Head()
    target = Scraper(head, "a")
    target.scrape(T, [(RUNNING, 1.0)])
    target.source.remove(T + 1000)
    again = Scraper(head, "a")
    assert again.source is target.source
    again.scrape(T + 2000, [(RUNNING, 2.0)])
    assert history(head, "running", T - 1, T + DAY) == [(0, 1.0), (2, 2.0)]


def test_removal_at_a_late_time_ends_right_after_the_newest_round() -> None:
    head = Head()
    target = Scraper(head, "a")
    target.scrape(T, [(RUNNING, 1.0)])
    target.source.remove(T - 5)
    assert now_at(head, T) == {"running": 1.0}
    assert now_at(head, T + 1) == {}


def test_refs_that_the_source_never_gave_are_refused() -> None:
    source = Head().source("a")
    for refs in ([0], [-1, 5], [1 << 40]):
        values = np.ones(len(refs))
        assert source.append(T + refs[0] % 7, np.array(refs), values).stored == 0


def test_a_ref_may_wait_some_rounds_for_its_first_sample() -> None:
    head = Head(keep=lambda _: MINUTE)
    source = head.source("a")
    refs = np.array([source.resolve(RUNNING), source.resolve(WAITING)])
    for k in range(50):
        source.append(T + k * SECOND, refs[:1], np.array([1.0]))
    assert source.append(T + 50 * SECOND, refs, np.array([1.0, 2.0])).stored == 2
    assert now_at(head, T + 50 * SECOND) == {"running": 1.0, "waiting": 2.0}


def test_refs_and_values_go_together() -> None:
    source = Head().source("a")
    ref = source.resolve(UP)
    with pytest.raises(ValueError, match="1 refs for 2 values"):
        source.append(T, np.array([ref]), np.array([1.0, 2.0]))


def test_refs_of_forgotten_series_are_refused_even_when_their_place_is_taken() -> None:
    head = Head(keep=lambda name: MINUTE)
    source = head.source("a")
    old = source.resolve(WAITING)
    keeper = source.resolve(UP)
    assert old is not None
    assert keeper is not None
    source.append(T, np.array([old, keeper]), np.array([1.0, 1.0]))
    epoch = source.epoch
    for k in range(1, 200):
        source.append(T + k * SECOND, np.array([keeper]), np.array([1.0]))
    assert source.epoch > epoch
    new = source.resolve(RUNNING)
    assert new is not None
    at = T + 200 * SECOND
    result = source.append(at, np.array([old, keeper, new]), np.array([9.0, 1.0, 2.0]))
    assert (result.stored, result.retired) == (2, 1)
    assert now_at(head, at) == {"up": 1.0, "running": 2.0}
    assert source.append(at + 1, np.array([77, keeper]), np.array([9.0, 1.0])).retired == 1
