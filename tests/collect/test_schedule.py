"""When a target is due: by the clock alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from enginewatch.collect.schedule import ClockWatch, EveryInterval

NOW = datetime(2026, 1, 31, 12, 0, 0, 250_000, UTC)


@given(now=st.integers(0, 2**41), interval=st.integers(1, 10**7), offset=st.integers(0, 10**7))
def test_the_next_time_is_the_first_one_on_the_grid(now: int, interval: int, offset: int) -> None:
    due = EveryInterval(interval, offset).after(now)
    assert now < due <= now + interval
    assert (due - offset) % interval == 0


def test_it_tells_datetimes() -> None:
    trigger = EveryInterval(5_000, 1_500)
    assert trigger.get_next_fire_time(None, NOW) == NOW + timedelta(milliseconds=1_250)


def test_there_is_nothing_to_catch_up_with_after_a_pause() -> None:
    trigger = EveryInterval(5_000, 0)
    long_ago = NOW - timedelta(days=1)
    assert trigger.get_next_fire_time(long_ago, NOW) > NOW


def test_a_clock_set_back_does_not_make_it_wait() -> None:
    trigger = EveryInterval(5_000, 0)
    soon = trigger.get_next_fire_time(NOW + timedelta(hours=1), NOW)
    assert soon - NOW <= timedelta(seconds=5)


def test_steps_of_the_clock_are_noticed() -> None:
    watch = ClockWatch(1_000_000, 0)
    assert not watch.stepped(1_001_000, 1_000)
    assert not watch.stepped(1_002_300, 2_000)  # slewed, or a second that took long to start
    assert watch.stepped(1_002_300 - 3_600_000, 3_000)
    assert not watch.stepped(1_003_300 - 3_600_000, 4_000)
    assert watch.stepped(1_004_300, 5_000)
