"""Couriers: one group in order, groups side by side, and nobody held up by another."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from enginewatch.model import Labels, Millis
from enginewatch.notify.deliver import STALLED, Courier, Outgoing
from enginewatch.notify.message import DeliveryError, FailureReason, Notification, Receipt
from enginewatch.notify.throttle import (
    LONGEST_ASKED,
    LONGEST_PROBING,
    PROBING_AFTER,
    Throttle,
    wait_of,
)

DOWN = DeliveryError("down", where="r", retryable=True, reason=FailureReason.UNREACHABLE)
REFUSED = DeliveryError("no", where="r", retryable=False, reason=FailureReason.REJECTED)


def asked(millis: Millis) -> DeliveryError:
    return DeliveryError("later", where="r", retryable=True, retry_after=millis)


# Backoff.


def test_waits_grow_with_jitter_up_to_a_minute() -> None:
    waits = [wait_of(DOWN, attempts) for attempts in range(1, 12)]
    assert 1_000 <= waits[0] <= 2_000
    assert all(1_000 <= wait <= 61_000 for wait in waits)
    assert waits[-1] >= 60_000
    assert len({wait_of(DOWN, 1) for _ in range(10)}) > 1


def test_what_was_refused_for_good_waits_for_a_person() -> None:
    assert [wait_of(REFUSED, attempts) // 60_000 for attempts in (1, 2, 3, 9)] == [5, 10, 20, 60]


def test_a_provider_is_given_the_time_it_asks_for_within_reason() -> None:
    assert 30_000 <= wait_of(asked(30_000), 1) <= 32_000
    assert wait_of(asked(10**12), 1) == LONGEST_ASKED


def test_a_receiver_pauses_when_asked_to() -> None:
    throttle = Throttle(8)
    throttle.failed("a", asked(30_000), now=1_000)
    assert throttle.paused_until == 31_000
    throttle.shift(-500)
    assert throttle.paused_until == 30_500


def test_one_group_that_fails_holds_up_no_other() -> None:
    throttle = Throttle(8)
    for _ in range(50):
        throttle.failed("poison", DOWN, now=1_000)
    assert throttle.most == 8
    assert throttle.paused_until == 0


def test_many_that_fail_mean_that_the_provider_is_down() -> None:
    throttle = Throttle(8)
    for number in range(PROBING_AFTER):
        throttle.failed(f"group {number}", DOWN, now=1_000)
    assert throttle.most == 1
    assert throttle.paused_until > 1_000
    for _ in range(20):
        throttle.failed("any", DOWN, now=1_000)
        throttle.failed("other", DOWN, now=1_000)
        throttle.failed("third", DOWN, now=1_000)
    assert throttle.paused_until <= 1_000 + LONGEST_PROBING
    throttle.succeeded()
    assert throttle.most == 8


# Couriers.


@dataclass
class Office:
    """Has as many things to tell of each group as the test says."""

    left: dict[str, int]
    courier: Courier | None = None
    again: float = 0.0
    log: list[str] = field(default_factory=list)

    async def hand_out(self, receiver: str, group: str) -> Outgoing | None:
        if not self.left[group]:
            return None
        return Outgoing(Notification(receiver, group, Labels(), ()), None)

    async def delivered(self, receiver: str, group: str, receipt: Receipt) -> None:
        self.log.append(f"{group} delivered")
        self.left[group] -= 1
        self.schedule(group, 0)

    async def failed(self, receiver: str, group: str, failure: DeliveryError) -> None:
        self.log.append(f"{group} failed: {failure.reason}")
        self.schedule(group, round(self.again * 1000))

    def schedule(self, group: str, wait: Millis = 0) -> None:
        assert self.courier is not None
        self.courier.schedule(group, clock() + wait if self.left[group] else None)


def clock() -> Millis:
    return round(asyncio.get_running_loop().time() * 1000)


class Recorder:
    """A receiver that takes `seconds` for each group, or raises what it is told."""

    name = "r"
    send_resolved = True
    pace = 0

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.errors: dict[str, list[BaseException]] = defaultdict(list)
        self.under_way: list[str] = []
        self.most = 0
        self.overlapped = False

    async def send(self, notification: Notification, _: Receipt | None = None) -> Receipt:
        group = notification.group_key
        self.overlapped |= group in self.under_way
        self.under_way.append(group)
        self.most = max(self.most, len(self.under_way))
        try:
            await asyncio.sleep(self.seconds[group])
            if self.errors[group]:
                raise self.errors[group].pop(0)
        finally:
            self.under_way.remove(group)
        return Receipt()

    async def close(self) -> None: ...


def deliver(
    office: Office,
    receiver: Recorder,
    during: Callable[[Courier], Awaitable[None]],
    *,
    at_once: int = 8,
    longest: float = 5.0,
) -> None:
    async def main() -> None:
        courier = Courier(receiver, office, clock, at_once=at_once, longest=longest)
        office.courier = courier
        running = asyncio.create_task(courier.run())
        for group in office.left:
            office.schedule(group)
        try:
            await during(courier)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(main())


async def until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not done():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def test_groups_go_side_by_side_and_each_in_order() -> None:
    office, receiver = Office(dict.fromkeys("abcdefghij", 3)), Recorder()
    receiver.seconds = defaultdict(lambda: 0.01)

    async def during(_: Courier) -> None:
        await until(lambda: not any(office.left.values()))

    deliver(office, receiver, during, at_once=4)
    assert not receiver.overlapped
    assert receiver.most == 4


def test_a_slow_group_holds_up_no_other() -> None:
    office, receiver = Office({"slow": 1, "b": 5, "c": 5}), Recorder()
    receiver.seconds["slow"] = 5.0

    async def during(_: Courier) -> None:
        await until(lambda: office.left == {"slow": 1, "b": 0, "c": 0})

    deliver(office, receiver, during)


def test_a_receiver_that_wants_its_time_gets_one_after_the_other() -> None:
    office, receiver = Office({"a": 2, "b": 1}), Recorder()
    receiver.pace = 150
    began: list[float] = []

    async def during(_: Courier) -> None:
        began.append(asyncio.get_running_loop().time())
        await until(lambda: not any(office.left.values()))
        began.append(asyncio.get_running_loop().time())

    deliver(office, receiver, during)
    assert receiver.most == 1
    assert began[1] - began[0] >= 0.3


def test_what_failed_is_tried_again() -> None:
    office, receiver = Office({"a": 1}), Recorder()
    receiver.errors["a"] = [DOWN, DOWN]

    async def during(_: Courier) -> None:
        await until(lambda: not office.left["a"])

    deliver(office, receiver, during)
    assert office.log == ["a failed: unreachable", "a failed: unreachable", "a delivered"]


def test_a_receiver_that_never_answers_is_given_up_and_one_that_breaks_too() -> None:
    office, receiver = Office({"hangs": 1, "breaks": 1}, again=60), Recorder()
    receiver.seconds["hangs"] = 60
    receiver.errors["breaks"] = [ZeroDivisionError("a defect")]

    async def during(_: Courier) -> None:
        await until(lambda: len(office.log) == 2)

    deliver(office, receiver, during, longest=0.05)
    assert sorted(office.log) == ["breaks failed: internal", "hangs failed: timeout"]


def test_an_office_that_breaks_is_asked_again_later(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Office):
        async def hand_out(self, receiver: str, group: str) -> Outgoing | None:
            raise ZeroDivisionError

    office = Broken({"a": 1})

    async def during(courier: Courier) -> None:
        await until(lambda: "ZeroDivisionError" in caplog.text)
        await courier.idle()
        assert courier._due == {"a": pytest.approx(clock() + STALLED, abs=2_000)}

    deliver(office, Recorder(), during)


def test_what_is_not_due_waits_and_can_be_called_off() -> None:
    office, receiver = Office({"a": 0, "b": 0}), Recorder()

    async def during(courier: Courier) -> None:
        office.left = {"a": 1, "b": 1}
        courier.schedule("a", clock() + 100)
        courier.schedule("b", clock() + 100)
        courier.schedule("b", None)
        await asyncio.sleep(0.02)
        assert not office.log
        await until(lambda: bool(office.log))
        await asyncio.sleep(0.05)

    deliver(office, receiver, during)
    assert office.log == ["a delivered"]


def test_a_courier_that_does_not_run_is_noticed_and_a_busy_one_is_not() -> None:
    async def main() -> None:
        now = 1_000_000
        office = Office({"a": 1, "b": 1})
        courier = Courier(Recorder(), office, lambda: now, at_once=1)
        assert not courier.stalled(now + 10 * STALLED)
        courier.schedule("a", now)
        assert not courier.stalled(now + STALLED)
        assert courier.stalled(now + STALLED + 1)
        courier._throttle.failed("a", asked(LONGEST_ASKED), now)
        assert not courier.stalled(now + STALLED + 1)

    asyncio.run(main())


def test_memory_stays_flat_however_often_a_lane_is_scheduled() -> None:
    async def main() -> None:
        courier = Courier(Recorder(), Office({}), lambda: 0)
        for at in range(50_000):
            courier.schedule("a", 1_000_000 + at)
        assert len(courier._heap) < 2_000

    asyncio.run(main())
