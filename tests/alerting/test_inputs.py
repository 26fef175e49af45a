"""Absence never resolves: targets that vanish, come back, leave; processes that restart."""

from __future__ import annotations

import pytest
from tests.support.rule_world import SCRAPE, SECOND, Page, World

from enginewatch.alerting.events import AlertChange
from enginewatch.alerting.persist import MIGRATIONS, PART, AlertStateTable
from enginewatch.model import AlertState, Labels
from enginewatch.statefile import StateFile

BUSY: Page = {"tok_total": 5.0, "running": 9.0}
IDLE: Page = {"tok_total": 5.0, "running": 1.0}
DOWN: Page = None

RULES = """\
groups:
- name: engines
  rules:
  - {record: engine:running:sum, expr: running or old_running, labels: {runtime: vllm}}
- name: hazards
  rules:
  - {alert: Busy, expr: engine:running:sum > 5}
"""


def test_an_engine_that_vanishes_keeps_its_alert_until_it_is_back_and_well() -> None:
    world = World(RULES)
    world.configure("a", "b")
    assert world.changes(60, {"a": BUSY, "b": IDLE}) == ["firing a"]
    assert world.changes(3600, {"a": DOWN, "b": IDLE}) == ["unknown a"]
    (alert,) = world.manager.alerts()
    assert (alert.state, alert.unknown) == (AlertState.FIRING, True)
    assert len(world.ask('ALERTS{alertstate="firing"}')) == 1
    assert world.changes(25, {"a": IDLE, "b": IDLE}) == []
    assert world.changes(35, {"a": IDLE, "b": IDLE}) == ["resolved a"]
    assert world.changes(60, {"a": IDLE, "b": IDLE}) == []


def test_an_engine_that_comes_back_as_it_was_goes_on_with_the_same_incident() -> None:
    world = World(RULES)
    world.configure("a")
    assert world.changes(60, {"a": BUSY}) == ["firing a"]
    (before,) = world.manager.alerts()
    assert world.changes(60, {"a": DOWN}) == ["unknown a"]
    assert world.changes(60, {"a": BUSY}) == ["known a"]
    (after,) = world.manager.alerts()
    assert (after.fired_at, after.active_at) == (before.fired_at, before.active_at)


def test_a_page_that_loses_the_series_is_unknown_too() -> None:
    world = World(RULES)
    world.configure("a")
    world.changes(60, {"a": BUSY})
    assert world.changes(600, {"a": {"renamed": 9.0}}) == ["unknown a"]
    assert world.changes(60, {"a": IDLE}) == ["resolved a"]


def test_an_engine_that_is_back_under_other_names_can_be_judged() -> None:
    world = World(RULES)
    world.configure("a")
    world.changes(60, {"a": BUSY})
    assert world.changes(60, {"a": DOWN}) == ["unknown a"]
    assert world.changes(60, {"a": {"old_running": 1.0}}) == ["resolved a"]


def test_without_a_watch_absence_is_false_as_in_prometheus() -> None:
    world = World(RULES, watching=False)
    world.configure("a")
    assert world.changes(60, {"a": BUSY}) == ["firing a"]
    assert world.changes(60, {"a": DOWN}) == ["resolved a"]


def test_a_target_that_leaves_the_configuration_resolves_after_a_while() -> None:
    world = World(RULES)
    world.configure("a", "b")
    world.changes(60, {"a": BUSY, "b": IDLE})
    world.head.source("a").remove(world.now + 1)
    world.configure("b")
    assert world.changes(295, {"b": IDLE}) == ["unknown a"]
    (change,) = world.pass_time(30, {"b": IDLE})
    assert (change.kind, change.reason) == ("resolved", "its target is no longer configured")


def test_a_target_that_is_only_missing_from_the_configuration_for_a_moment() -> None:
    world = World(RULES)
    world.configure("a")
    world.changes(60, {"a": BUSY})
    source = world.head.source("a")
    for _ in range(3):
        source.remove(world.now + 1)
        world.configure()
        assert world.changes(120, {})[-1:] in (["unknown a"], [])
        source = world.head.source("a")
        world.configure("a")
        assert world.changes(60, {"a": BUSY}) == ["known a"]


def test_an_alert_on_up_needs_nothing_of_a_dead_target() -> None:
    world = World("groups: [{name: g, rules: [{alert: Dead, expr: up == 0}]}]")
    world.configure("a")
    world.changes(60, {"a": IDLE})
    assert world.changes(60, {"a": DOWN}) == ["firing a"]
    assert world.changes(15, {"a": IDLE}) == ["resolved a"]


def test_an_alert_on_absence_is_decided_by_presence() -> None:
    world = World("groups: [{name: g, rules: [{alert: Gone, expr: 'absent(up{job=\"j\"} == 1)'}]}]")
    world.configure("a")
    world.changes(60, {"a": IDLE})
    assert world.changes(60, {"a": DOWN}) == ["firing"]
    assert world.changes(15, {"a": IDLE}) == ["resolved"]


def test_a_blink_between_two_groups_is_not_taken_for_an_end() -> None:
    """The recording group runs while the target is away, the alerts' when it is back."""
    world = World(RULES)
    world.configure("a")
    world.changes(60, {"a": BUSY})
    world.now += SCRAPE
    world.scrape({"a": DOWN})
    world.now += SECOND
    world.evaluate("engines")
    world.now += SCRAPE - SECOND
    world.scrape({"a": BUSY})
    world.now += SECOND
    (result,) = world.evaluate("hazards")
    assert [change.kind for change in result.changes] == ["unknown"]
    world.now += SCRAPE - SECOND
    assert world.changes(60, {"a": BUSY}) == ["known a"]


def test_a_recording_rule_that_fails_makes_its_alerts_unknown() -> None:
    world = World(RULES.replace("running or old_running", "running * on () group_left () factor"))
    world.configure("a", "b")
    pages = {"a": {**(BUSY or {}), "factor": 1.0}, "b": IDLE}
    assert world.changes(60, pages) == ["firing a"]
    # Two factors: many-to-many, which no rule can compute.
    spoilt = {"a": {**(IDLE or {}), "factor": 1.0}, "b": {**(IDLE or {}), "factor": 1.0}}
    kinds: list[str] = []
    for _ in range(4):
        for _ in range(3):
            world.now += SCRAPE
            world.scrape(spoilt)
        kinds += [c.kind for result in world.evaluate() for c in result.changes]
    assert kinds == ["unknown"]
    assert world.changes(60, {"a": {**(IDLE or {}), "factor": 1.0}, "b": IDLE}) == ["resolved a"]


def test_an_alert_on_the_daemons_own_series_has_nothing_to_do_with_targets() -> None:
    world = World("groups: [{name: g, rules: [{alert: Own, expr: backlog > 5}]}]")
    world.configure("a")

    def live(backlog: float | None) -> list[str]:
        told = []
        for _ in range(4):
            if backlog is not None:
                world.write("own", {("backlog", Labels()): backlog})
            told += world.changes(15, {"a": IDLE})
        return told

    assert live(9.0) == ["firing"]
    assert live(1.0) == ["resolved"]
    assert live(9.0) == ["firing"]
    world.head.source("own").stale(world.now)
    assert live(None) == ["unknown"]
    assert live(1.0) == ["resolved"]


FLEET = """\
groups:
- name: g
  rules:
  - {alert: Load, expr: sum by (deployment) (running) > 10}
"""


def test_an_alert_on_many_targets_waits_for_those_that_spoke_for_it() -> None:
    world = World(FLEET)
    world.configure("a", "b", "c")
    # `c` is dead all along and has no say.
    busy = {"a": BUSY, "b": BUSY, "c": DOWN}
    assert world.changes(60, busy) == ["firing"]
    assert world.changes(120, {"a": BUSY, "b": DOWN, "c": DOWN}) == ["unknown"]
    assert world.changes(60, {"a": BUSY, "b": IDLE, "c": DOWN}) == ["resolved"]


def test_one_that_died_long_before_the_end_has_no_say_in_it() -> None:
    world = World(FLEET)
    world.configure("a", "b", "c")
    many: Page = {"running": 20.0}
    assert world.changes(60, {"a": many, "b": many, "c": many}) == ["firing"]
    assert world.changes(600, {"a": many, "b": many, "c": DOWN}) == []
    assert world.changes(60, {"a": IDLE, "b": IDLE, "c": DOWN}) == ["resolved"]


def test_pending_waits_through_a_failed_scrape() -> None:
    world = World(RULES.replace("> 5}", "> 5, for: 1m}"))
    world.configure("a")
    assert world.changes(45, {"a": BUSY}) == ["pending a"]
    assert world.changes(15, {"a": DOWN}) == ["unknown a"]
    # The 15 s in which nothing could be told are not among the 60 s.
    assert world.changes(15, {"a": BUSY}) == ["known a"]
    assert world.changes(15, {"a": BUSY}) == ["firing a"]


def test_a_suspended_machine_does_not_resolve_on_old_data() -> None:
    world = World(RULES)
    world.configure("a")
    world.changes(60, {"a": BUSY})
    world.now += 3600 * SECOND
    assert world.changes(30, {"a": IDLE}) == ["unknown a"]
    assert world.changes(60, {"a": IDLE}) == ["resolved a"]


# A life with an incident, a dead engine inside it, its end, and a second incident.
STORY: list[tuple[int, Page]] = [
    (60, IDLE),
    (90, BUSY),
    (60, DOWN),
    (60, BUSY),
    (120, IDLE),
    (60, BUSY),
    (120, IDLE),
]


def incidents(world: World, restart_at: int | None = None) -> list[str]:
    """Begins and ends through the story, restarted after so many scrapes."""
    kinds: list[str] = []
    step = 0
    for seconds, page in STORY:
        for _ in range(0, seconds, 5):
            if step == restart_at:
                restart(world, kinds)
            told: list[AlertChange] = list(world.pass_time(5, {"a": page}))
            kinds += [c.kind for c in told if c.begins_incident or c.ends_incident]
            step += 1
    return kinds


def restart(world: World, kinds: list[str]) -> None:
    """Half a minute without a process, then one with an empty store and the saved alerts."""
    file, table = StateFile(":memory:", {PART: MIGRATIONS}), AlertStateTable()
    with file.transaction() as db:
        table.write(db, world.manager.snapshot(world.now))
    with file.reading() as db:
        saved = table.load(db)
    file.close()
    assert saved is not None
    world.now += 30 * SECOND
    world.begin(RULES)
    assert world.manager.restore(saved, world.now) == ()
    active = [a for a in world.manager.alerts() if a.state is AlertState.FIRING]
    assert len(active) == (kinds[-1:] == ["firing"])


@pytest.mark.parametrize("restart_at", [None, *range(0, 114, 6)])
def test_a_restart_at_any_moment_neither_repeats_nor_forgets_an_incident(
    restart_at: int | None,
) -> None:
    world = World(RULES)
    world.configure("a")
    assert incidents(world, restart_at) == ["firing", "resolved", "firing", "resolved"]
