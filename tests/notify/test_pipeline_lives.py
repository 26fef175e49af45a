"""What receivers hear over crashes, restarts, reloads and set clocks."""

from __future__ import annotations

from unittest.mock import ANY

import pytest
from tests.support.pages import (
    HOOK,
    HOUR,
    MINUTE,
    ONE_HOOK,
    SECOND,
    World,
    alert,
    heard,
    silence,
)

A, B = alert("A"), alert("B")


@pytest.fixture
def world() -> World:
    return World()


# Doubt.


@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize("crash", [True, False])
def test_what_fires_again_after_an_end_in_doubt_is_told_again(
    world: World, crash: bool, taken: bool
) -> None:
    world.fire(A)
    world.run(10 * MINUTE)
    world.resolve(A)
    world.now += SECOND
    world.attempt_without_answer(crash=crash, taken=taken)
    world.fire(again := alert("A", world.now))
    world.run(MINUTE)
    assert heard(world)[1:] == ([] if not (taken or crash) else [(ANY, "first", "A", "")])
    world.resolve(again)
    world.run(MINUTE)
    assert heard(world)[-1][1:] == ("all_resolved", "", "A")


def test_an_end_in_doubt_is_told_again_before_the_alert_comes_and_goes_once_more(
    world: World,
) -> None:
    world.fire(A)
    world.run(10 * MINUTE)
    world.resolve(A)
    world.now += SECOND
    world.attempt_without_answer(crash=False, taken=True)
    world.fire(again := alert("A", world.now))
    world.resolve(again)
    world.run(2 * MINUTE)
    assert [told[1:] for told in heard(world)[1:]] == [
        ("first", "A", ""),
        ("all_resolved", "", "A"),
    ]


# Restarts and reloads.


def test_a_restart_repeats_nothing_and_forgets_nothing(world: World) -> None:
    world.fire(A)
    world.run(MINUTE)
    world.restart()
    world.run(HOUR)
    assert len(world.heard) == 1
    world.resolve(A)
    world.restart()
    world.run(MINUTE)
    assert heard(world)[1:] == [(3661, "all_resolved", "", "A")]
    assert not list(world.pipeline.groups())


def test_what_ended_while_the_daemon_was_away_is_told(world: World) -> None:
    world.fire(A)
    world.run(MINUTE)
    world.firing.clear()
    world.now += HOUR
    world.restart()
    world.run(MINUTE)
    assert heard(world)[1:] == [(3661, "all_resolved", "", "A")]


def test_a_crash_during_an_attempt_repeats_it_and_says_so(world: World) -> None:
    world.fire(A)
    world.now += SECOND
    ((receiver, group),) = world.dues
    assert world.pipeline.draft(receiver, group, world.now)
    world.look()
    world.restart()
    world.run(MINUTE)
    assert [(t.reason, t.firing, t.doubt) for t in world.heard] == [("first", ["A"], True)]


def test_the_end_of_what_may_have_been_told_is_told_even_if_silenced(world: World) -> None:
    world.fire(A)
    world.now += SECOND
    ((receiver, group),) = world.dues
    assert world.pipeline.draft(receiver, group, world.now)
    silence(world)
    world.look()
    world.restart()
    world.resolve(A)
    world.run(MINUTE)
    assert heard(world)[-1][1:] == ("all_resolved", "", "A")
    assert not list(world.pipeline.groups())


TWO = """
receivers:
  - {name: hook, webhook_configs: [{url: 'http://x'}]}
  - {name: other, webhook_configs: [{url: 'http://y'}]}
"""
OTHER = "other/webhook[0]"


def test_a_new_route_hears_of_what_fires_and_the_old_of_its_end() -> None:
    world = World(TWO + "route: {receiver: hook}")
    world.fire(A)
    world.run(MINUTE)
    world.reload(TWO + "route: {receiver: other}")
    world.run(5 * HOUR)
    assert [(t.receiver, t.reason) for t in world.heard] == [
        (HOOK, "first"),
        (OTHER, "first"),
        (OTHER, "repeat"),
    ]
    world.resolve(A)
    world.run(MINUTE)
    assert sorted((t.receiver, t.reason) for t in world.heard[3:]) == [
        (HOOK, "all_resolved"),
        (OTHER, "all_resolved"),
    ]
    assert not list(world.pipeline.groups())


def test_another_grouping_keeps_the_old_incident_until_it_ends() -> None:
    world = World(ONE_HOOK + "route: {receiver: hook, group_by: [deployment]}")
    world.fire(A, B)
    world.run(MINUTE)
    world.reload(ONE_HOOK + "route: {receiver: hook, group_by: [alertname]}")
    world.run(MINUTE)
    assert [t.firing for t in world.heard] == [["A", "B"], ["A"], ["B"]]
    world.resolve(A, B)
    world.run(MINUTE)
    assert sorted(t.resolved for t in world.heard[3:]) == [["A"], ["A", "B"], ["B"]]
    assert not list(world.pipeline.groups())


def test_a_receiver_that_is_gone_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    world = World(TWO)
    world.fire(A)
    world.run(MINUTE)
    world.reload(ONE_HOOK)
    world.resolve(A)
    world.run(MINUTE)
    assert [t.receiver for t in world.heard[2:]] == [HOOK]
    assert f"{OTHER} is gone" in caplog.text
    assert not list(world.pipeline.groups())


def test_a_receiver_that_wants_no_ends_hears_of_none() -> None:
    world = World(TWO, without_ends=frozenset({HOOK}))
    world.fire(A, B)
    world.run(MINUTE)
    world.resolve(A)
    world.run(MINUTE)
    world.resolve(B)
    world.run(MINUTE)
    world.fire(A)
    world.run(MINUTE)
    of_hook = [(t.reason, t.firing, t.resolved) for t in world.heard if t.receiver == HOOK]
    assert of_hook == [("first", ["A", "B"], []), ("first", ["A"], [])]
    world.resolve(A)
    world.run(MINUTE)
    assert not list(world.pipeline.groups())


# Clocks.


@pytest.mark.parametrize("step", [-10 * HOUR, 10 * HOUR])
def test_a_clock_that_is_set_neither_holds_back_nor_repeats(world: World, step: int) -> None:
    world.fire(A)
    world.run(MINUTE)
    world.now += step
    world.pipeline.shift(step)
    world.dues.clear()
    world.look()
    world.run(HOUR)
    assert len(world.heard) == 1
    world.resolve(A)
    world.run(MINUTE)
    assert len(world.heard) == 2


def test_times_of_a_clock_that_ran_ahead_hold_nothing_back_after_a_restart(world: World) -> None:
    world.fire(A)
    world.run(MINUTE)
    world.now -= 10 * HOUR
    world.restart()
    world.fire(B)
    world.run(MINUTE)
    assert heard(world)[1][1:] == ("new_alerts", "AB", "")
