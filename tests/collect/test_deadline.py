"""A target is not blamed for the time in which this process was late."""

from __future__ import annotations

import asyncio

import pytest

from enginewatch.collect.deadline import LagClock, within


class Timer:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_lag_is_what_comes_on_top_of_a_beat() -> None:
    timer = Timer()
    lag = LagClock(timer)
    for seconds in (0.1, 0.1, 0.6, 0.1):
        timer.now += seconds
        lag.beat()
    assert lag() == pytest.approx(0.5)
    timer.now += 2.1  # the next beat is overdue, which counts before it comes
    assert lag() == pytest.approx(2.5)
    lag.beat()
    assert lag() == pytest.approx(2.5)


async def value() -> int:
    return 5


async def fail() -> int:
    raise KeyError("x")


def test_what_comes_in_time_is_the_result() -> None:
    assert asyncio.run(within(10, value(), lambda: 0.0)) == 5
    with pytest.raises(KeyError):
        asyncio.run(within(10, fail(), lambda: 0.0))


def test_what_does_not_come_is_cancelled() -> None:
    ended = False

    async def hang() -> None:
        nonlocal ended
        try:
            await asyncio.Event().wait()
        finally:
            ended = True

    with pytest.raises(TimeoutError):
        asyncio.run(within(0.01, hang(), lambda: 0.0))
    assert ended


def test_time_in_which_we_were_late_does_not_count() -> None:
    async def late() -> int:
        readings = iter([7.0, 12.0])
        answer = asyncio.Event()

        def lag() -> float:
            seconds = next(readings)
            if seconds == 12.0:  # the deadline is over, and only now the answer is read
                asyncio.get_running_loop().call_soon(answer.set)
            return seconds

        async def work() -> int:
            await answer.wait()
            return 5

        return await within(0.01, work(), lag)

    assert asyncio.run(late()) == 5


def test_but_for_no_longer_than_the_deadline_again() -> None:
    readings = iter([0.0, 1_000_000.0])
    with pytest.raises(TimeoutError):
        asyncio.run(within(0.01, asyncio.sleep(10), lambda: next(readings)))
