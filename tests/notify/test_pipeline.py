"""What receivers hear, and when: groups, waits, repetitions, mutes, refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.pages import HOUR, MINUTE, ONE_HOOK, SECOND, START, World, alert, heard, silence

from enginewatch.notify.group import GIVE_UP_AFTER

A, B = alert("A"), alert("B")


@pytest.fixture
def world() -> World:
    return World()


def test_an_alert_is_told_within_a_second_and_its_end_half_a_minute_later(world: World) -> None:
    world.fire(A)
    world.run(5 * SECOND)
    world.resolve(A)
    world.run(MINUTE)
    assert heard(world) == [(1, "first", "A", ""), (31, "all_resolved", "", "A")]
    assert not list(world.pipeline.groups())


def test_an_end_after_a_quiet_while_is_told_at_once(world: World) -> None:
    world.fire(A)
    world.run(10 * MINUTE)
    world.resolve(A)
    world.run(MINUTE)
    assert heard(world)[1:] == [(601, "all_resolved", "", "A")]


def test_what_fires_together_is_told_together(world: World) -> None:
    world.fire(A)
    world.run(500)
    world.fire(B, alert("C", deployment="other"))
    world.run(MINUTE)
    assert heard(world) == [(1, "first", "AB", ""), (1, "first", "C", "")]


def test_what_joins_or_leaves_an_incident_is_told_at_the_groups_interval(world: World) -> None:
    world.fire(A)
    world.run(5 * SECOND)
    world.fire(B)
    world.run(5 * SECOND)
    world.fire(alert("C"))
    world.run(MINUTE)
    world.resolve(A)
    world.run(MINUTE)
    assert heard(world) == [
        (1, "first", "A", ""),
        (31, "new_alerts", "ABC", ""),
        (71, "new_resolved", "BC", "A"),
    ]


def test_a_page_does_not_wait_behind_a_ticket_and_the_next_page_does(world: World) -> None:
    world.fire(alert("A", severity="ticket"))
    world.run(5 * SECOND)
    world.fire(alert("B", severity="ticket"))
    world.run(5 * SECOND)
    world.fire(alert("C", severity="page"))
    world.run(5 * SECOND)
    world.fire(alert("D", severity="page"))
    world.run(MINUTE)
    assert heard(world) == [
        (1, "first", "A", ""),
        (10, "new_alerts", "ABC", ""),
        (40, "new_alerts", "ABCD", ""),
    ]


def test_an_alert_that_comes_and_goes_between_two_notifications_stays_one_incident(
    world: World,
) -> None:
    world.fire(A)
    world.run(5 * SECOND)
    world.resolve(A)
    world.run(5 * SECOND)
    world.fire(A)
    world.run(10 * MINUTE)
    assert heard(world) == [(1, "first", "A", "")]
    world.resolve(A)
    world.run(MINUTE)
    assert heard(world)[1:] == [(611, "all_resolved", "", "A")]


def test_an_alert_that_ends_before_it_could_be_told_is_told_all_the_same(world: World) -> None:
    world.fire(A)
    world.run(500)
    world.resolve(A)
    world.run(MINUTE)
    assert heard(world) == [(1, "first", "A", ""), (1, "all_resolved", "", "A")]


def test_it_is_told_so_within_a_running_incident_too(world: World) -> None:
    world.fire(A)
    world.run(5 * SECOND)
    world.fire(B)
    world.run(5 * SECOND)
    world.resolve(B)
    world.run(MINUTE)
    assert heard(world)[1:] == [(31, "new_alerts", "AB", ""), (31, "new_resolved", "A", "B")]


def test_a_new_incident_of_a_group_waits_for_nothing(world: World) -> None:
    world.fire(A)
    world.run(2 * MINUTE)
    world.resolve(A)
    world.run(2 * SECOND)
    world.fire(B)
    world.run(MINUTE)
    assert heard(world)[1:] == [(121, "all_resolved", "", "A"), (123, "first", "B", "")]


def test_it_is_repeated_after_the_delivery_not_after_the_attempt(world: World) -> None:
    world.refuse = True
    world.fire(A)
    world.run(HOUR)
    world.refuse = False
    world.run(9 * HOUR)
    first, *repeats = heard(world)
    assert first == (3601, "first", "A", "")
    assert repeats == [
        (first[0] + 4 * 3600, "repeat", "A", ""),
        (first[0] + 8 * 3600, "repeat", "A", ""),
    ]


# Refusals.


def test_what_was_refused_is_told_as_it_is_when_it_is_taken(world: World) -> None:
    world.refuse = True
    world.fire(A)
    world.run(MINUTE)
    world.fire(B)
    world.run(MINUTE)
    world.refuse = False
    world.run(MINUTE)
    assert [each[1:] for each in heard(world)] == [("first", "AB", "")]


def test_an_outage_longer_than_the_incident_hides_neither_its_begin_nor_its_end(
    world: World,
) -> None:
    world.refuse = True
    world.fire(A)
    world.run(MINUTE)
    world.resolve(A)
    world.run(HOUR)
    world.refuse = False
    world.run(MINUTE)
    assert [each[1:] for each in heard(world)] == [
        ("first", "A", ""),
        ("all_resolved", "", "A"),
    ]
    assert not list(world.pipeline.groups())


def test_an_end_is_not_told_to_who_heard_no_begin_for_ever(world: World) -> None:
    world.refuse = True
    world.fire(A)
    world.run(MINUTE)
    world.resolve(A)
    world.run(GIVE_UP_AFTER + MINUTE)
    assert not list(world.pipeline.groups())
    assert not world.heard


def test_an_alert_that_is_over_and_comes_again_during_an_outage_is_told_once(world: World) -> None:
    world.refuse = True
    for _ in range(100):
        world.fire(A)
        world.run(MINUTE)
        world.resolve(A)
        world.run(MINUTE)
    world.refuse = False
    world.run(MINUTE)
    assert [each[1:] for each in heard(world)] == [
        ("first", "A", ""),
        ("all_resolved", "", "A"),
    ]


# Mutes.


def test_what_is_silenced_all_its_life_is_never_told(world: World) -> None:
    silence(world)
    world.fire(A)
    world.run(MINUTE)
    world.resolve(A)
    world.run(2 * HOUR)
    assert not world.heard
    assert not list(world.pipeline.groups())


def test_what_fires_on_when_its_silence_ends_is_told_then(world: World) -> None:
    silence(world, span=MINUTE)
    world.fire(A)
    world.run(2 * MINUTE)
    assert heard(world) == [(61, "first", "A", "")]


def test_the_end_of_what_was_told_is_told_in_spite_of_a_silence(world: World) -> None:
    world.fire(A)
    world.run(MINUTE)
    silence(world)
    world.run(MINUTE)
    world.resolve(A)
    world.run(MINUTE)
    assert heard(world) == [(1, "first", "A", ""), (121, "all_resolved", "", "A")]


def test_what_was_told_is_not_repeated_while_it_is_silenced(world: World) -> None:
    world.fire(A)
    world.run(MINUTE)
    silence(world, span=10 * HOUR)
    world.run(12 * HOUR)
    assert [each[1] for each in heard(world)] == ["first", "repeat"]
    assert 36_060 <= heard(world)[1][0] <= 36_120


def test_what_is_silenced_before_it_could_be_told_is_not(world: World) -> None:
    world.fire(A)
    world.run(500)
    silence(world)
    world.run(MINUTE)
    world.resolve(A)
    world.run(MINUTE)
    assert not world.heard


def test_a_silence_hides_some_of_a_group(world: World) -> None:
    silence(world)
    world.fire(A, B)
    world.run(MINUTE)
    world.resolve(A)
    world.run(MINUTE)
    assert heard(world) == [(1, "first", "B", "")]


DEAD = alert("EngineDown", verdict="engine_dead", severity="page")
SLOW = alert("Slow", verdict="prefill_starvation", severity="page")


def test_what_another_alert_explains_is_not_told(world: World) -> None:
    world.fire(SLOW, DEAD)
    world.run(MINUTE)
    assert heard(world) == [(1, "first", "EngineDown", "")]
    world.resolve(DEAD, SLOW)
    world.run(MINUTE)
    assert heard(world)[1:] == [(61, "all_resolved", "", "EngineDown")]
    assert not list(world.pipeline.groups())


def test_what_ends_shortly_after_what_explains_it_is_not_told_either(world: World) -> None:
    world.fire(DEAD, SLOW)
    world.run(MINUTE)
    world.resolve(DEAD)
    world.run(40 * SECOND)
    world.resolve(SLOW)
    world.run(MINUTE)
    assert "Slow" not in str(world.heard)


def test_what_outlives_what_explained_it_is_told(world: World) -> None:
    world.fire(DEAD, SLOW)
    world.run(MINUTE)
    world.resolve(DEAD)
    world.run(2 * MINUTE)
    assert heard(world)[-1][1:] == ("first", "Slow", "")


def test_what_fires_after_the_explanation_ended_is_told_at_once(world: World) -> None:
    world.fire(DEAD)
    world.run(MINUTE)
    world.resolve(DEAD)
    world.run(5 * SECOND)
    world.fire(replace(SLOW, fired_at=world.now))
    world.run(5 * SECOND)
    assert heard(world)[-1] == (66, "first", "Slow", "")


QUIET = (
    ONE_HOOK
    + """
route:
  receiver: hook
  routes: [{matchers: [alertname=A], mute_time_intervals: [night]}]
time_intervals:
  - {name: night, time_intervals: [{times: [{start_time: "00:00", end_time: "00:30"}]}]}
"""
)


def test_a_quiet_route_tells_when_its_quiet_hours_are_over() -> None:
    night = START // (24 * HOUR) * 24 * HOUR
    world = World(QUIET, now=night)
    world.fire(A, B)
    world.run(HOUR)
    assert [(t.at - night, t.firing) for t in world.heard] == [
        (1 * SECOND, ["B"]),
        (30 * MINUTE + SECOND, ["A"]),
    ]
