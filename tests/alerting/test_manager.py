"""Groups of rules over a real store: what is written, what fails, what the clock does."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
from tests.support.rule_world import INTERVAL, SECOND, START, World

from enginewatch.alerting.events import ChangeKind, Health
from enginewatch.alerting.manager import RuleManager
from enginewatch.alerting.runners import Evaluates
from enginewatch.model import AlertState, Labels

A = Labels(instance="a", job="j")
B = Labels(instance="b", job="j")

RECORD = """\
groups:
- name: g
  rules:
  - {record: doubled, expr: x * 2, labels: {kind: test, job: ""}}
  - {record: again, expr: doubled + 1}
"""

ALERT = """\
groups:
- name: g
  rules:
  - alert: High
    expr: x > 5
    for: 30s
    labels: {severity: page}
    annotations: {summary: "{{ $labels.instance }} at {{ $value }}"}
"""


def test_recorded_series_are_there_for_the_next_rule_and_end_at_once() -> None:
    world = World(RECORD, watching=False)
    world.write("x", {("x", A): 3.0, ("x", B): 4.0})
    (result,) = world.evaluate()
    assert result.samples == 4
    assert world.ask('{__name__=~"doubled|again"}') == {
        'doubled{instance="a", kind="test"}': 6.0,
        'doubled{instance="b", kind="test"}': 8.0,
        'again{instance="a", kind="test"}': 7.0,
        'again{instance="b", kind="test"}': 9.0,
    }
    world.now += INTERVAL
    world.write("x", {("x", A): 5.0})
    world.evaluate()
    assert world.ask("again") == {'again{instance="a", kind="test"}': 11.0}


def test_a_scalar_is_recorded_without_labels() -> None:
    world = World("groups: [{name: g, rules: [{record: r, expr: 1 + 1}]}]", watching=False)
    world.evaluate()
    assert world.ask("r") == {"r": 2.0}


def test_two_series_with_the_same_labels_fail_the_rule_and_end_its_series() -> None:
    world = World(
        """\
        groups:
        - name: g
          rules:
          - {record: r, expr: x, labels: {instance: ""}}
          - {record: s, expr: x}
        """,
        watching=False,
    )
    world.write("x", {("x", A): 3.0})
    assert not world.evaluate()[0].failures
    world.now += INTERVAL
    world.write("x", {("x", A): 3.0, ("x", B): 4.0})
    (failure,) = world.evaluate()[0].failures
    assert failure.message == (
        'two series get the same labels: x{instance="a", job="j"} and x{instance="b", job="j"}'
    )
    assert world.ask("r") == {}
    assert len(world.ask("s")) == 2
    bad, good = world.manager.status()[0].rules
    assert (bad.health, bad.last_error) == (Health.FAILED, failure.message)
    assert (good.health, good.last_error, good.evaluated_at) == (Health.OK, "", world.now)
    # They may be there one after the other.
    world.now += INTERVAL
    world.write("x", {("x", B): 4.0})
    assert not world.evaluate()[0].failures


def test_alerts_that_are_not_distinct_fail_the_rule_and_stay_as_they_were() -> None:
    world = World(ALERT.replace("{severity: page}", '{instance: ""}'), watching=False)
    world.write("x", {("x", A): 6.0})
    assert [c.kind for c in world.evaluate()[0].changes] == [ChangeKind.PENDING]
    world.now += INTERVAL
    world.write("x", {("x", A): 6.0, ("x", B): 6.0})
    (failure,) = world.evaluate()[0].failures
    assert failure.message.startswith("two series give the same alert: ")
    assert [alert.state for alert in world.manager.alerts()] == [AlertState.PENDING]
    assert world.ask("ALERTS") == {}


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("{record: r, expr: x}", "the result has 2 series, more than the group's limit of 1"),
        ("{alert: A, expr: x}", "the result has 2 alerts, more than the group's limit of 1"),
    ],
)
def test_limits(rule: str, message: str) -> None:
    world = World(f"groups: [{{name: g, limit: 1, rules: [{rule}]}}]", watching=False)
    world.write("x", {("x", A): 6.0, ("x", B): 6.0})
    (result,) = world.evaluate()
    assert [failure.message for failure in result.failures] == [message]
    assert world.manager.alerts() == ()


def test_alerts_are_series_with_their_state() -> None:
    world = World(ALERT, watching=False)
    own = 'alertname="High", instance="a", job="j", severity="page"'
    pending, firing = (
        f'ALERTS{{alertname="High", alertstate="{state}", instance="a", job="j", severity="page"}}'
        for state in ("pending", "firing")
    )
    since = {f"ALERTS_FOR_STATE{{{own}}}": START / 1000}
    world.write("x", {("x", A): 6.0})
    world.evaluate()
    assert world.ask("ALERTS") == {pending: 1.0}
    assert world.ask("ALERTS_FOR_STATE") == since
    for _ in range(2):
        world.now += INTERVAL
        world.write("x", {("x", A): 7.0})
        world.evaluate()
    assert world.ask("ALERTS") == {firing: 1.0}
    assert world.ask("ALERTS_FOR_STATE") == since
    (status,) = world.manager.status()[0].rules
    assert [alert.annotations["summary"] for alert in status.alerts] == ["a at 7"]
    world.now += INTERVAL
    world.write("x", {("x", A): 1.0})
    (change,) = world.evaluate()[0].changes
    assert (change.kind, change.alert.annotations["summary"]) == (ChangeKind.RESOLVED, "a at 7")
    assert world.ask('{__name__=~"ALERTS.*"}') == {}
    assert world.manager.status()[0].rules[0].alerts == ()
    assert [alert.state for alert in world.manager.alerts()] == [AlertState.RESOLVED]


def test_annotations_follow_values_labels_and_queries() -> None:
    world = World(
        """\
        groups:
        - name: g
          rules:
          - alert: A
            expr: x > 5
            annotations:
              fixed: "{{ $labels.instance }}"
              value: "{{ $value }}"
              asked: '{{ with query "y" }}{{ . | first | value }}{{ end }}'
        """,
        watching=False,
    )
    for number in (6.0, 7.0):
        world.now += INTERVAL
        world.write("x", {("x", A): number, ("y", A): number * 10})
        world.evaluate()
        (alert,) = world.manager.alerts()
        assert alert.annotations == {
            "fixed": "a",
            "value": f"{number:.0f}",
            "asked": f"{number * 10:.0f}",
        }


def test_a_query_offset_looks_and_writes_in_the_past() -> None:
    world = World(
        "groups: [{name: g, query_offset: 10s, rules: [{record: r, expr: x}, "
        "{alert: A, expr: x}]}]",
        watching=False,
    )
    world.write("x", {("x", A): 1.0})
    world.now += 10 * SECOND
    world.write("x", {("x", A): 2.0})
    (change,) = world.evaluate()[0].changes
    assert (change.alert.value, change.alert.active_at) == (1.0, world.now)
    assert world.ask("r offset 10s") == {'r{instance="a", job="j"}': 1.0}
    assert world.ask("timestamp(r)") == {'{instance="a", job="j"}': START / 1000}


class Broken:
    """An evaluator with a defect in one metric's name."""

    def __init__(self, inner: Evaluates):
        self.inner = inner

    def result(self, expr: Any, at: int) -> Any:
        if getattr(expr, "name", "") == "x":
            raise ZeroDivisionError("a defect")
        return self.inner.result(expr, at)


def test_a_defect_in_one_rule_does_not_blind_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rules = "groups: [{name: g, rules: [{record: r, expr: x}, {record: s, expr: y}]}]"
    world = World(rules, watching=False)
    world.evaluator = Broken(world.evaluator)  # type: ignore[assignment]
    world.manager = world.manage(rules)
    world.write("x", {("x", A): 1.0, ("y", A): 1.0})
    with caplog.at_level(logging.ERROR):
        (result,) = world.evaluate()
    assert [f.message for f in result.failures] == ["internal error: ZeroDivisionError('a defect')"]
    assert result.samples == 1
    assert "rules.yml:1: rule r" in caplog.text


def test_labels_and_refs_are_made_once_for_a_set_of_series(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(RECORD, watching=False)
    resolved: list[Labels] = []
    inner = world.head.source

    def source(key: Any) -> Any:
        made = inner(key)
        resolve = made.resolve
        monkeypatch.setattr(made, "resolve", lambda each: (resolved.append(each), resolve(each))[1])
        return made

    monkeypatch.setattr(world.head, "source", source)
    world.manager = world.manage(RECORD)
    counts = []
    for value in (1.0, 2.0, 3.0):
        world.now += INTERVAL
        inner_source = inner("x")
        refs = [inner_source.resolve(each.with_(__name__="x")) for each in (A, B)]
        inner_source.append(world.now, np.array(refs), np.array([value, value]))
        world.evaluate()
        counts.append(len(resolved))
    assert counts == [4, 4, 4]


def fire(world: World) -> None:
    """An alert that has been pending for 15 of its 30 s."""
    for _ in range(2):
        world.write("x", {("x", A): 6.0})
        world.evaluate()
        world.now += INTERVAL


@pytest.mark.parametrize(
    ("gap", "missed", "jumped", "kind"),
    [
        (1, 0, 0, [ChangeKind.FIRING]),
        (3, 2, 0, [ChangeKind.FIRING]),
        (4, 3, 0, [ChangeKind.FIRING]),
        # Counts as one interval: now pending for 30 s.
        (5, 4, 4, [ChangeKind.FIRING]),
        (-3, 0, -4, [ChangeKind.FIRING]),
    ],
)
def test_gaps_between_evaluations(
    gap: int, missed: int, jumped: int, kind: list[ChangeKind]
) -> None:
    world = World(ALERT, watching=False)
    fire(world)
    world.now += (gap - 1) * INTERVAL
    world.write("x", {("x", A): 6.0})
    (result,) = world.evaluate()
    assert (result.missed, result.jumped) == (missed, jumped * INTERVAL)
    assert [change.kind for change in result.changes] == kind
    assert world.manager.status()[0].missed == missed


def test_a_long_gap_is_not_time_in_which_an_alert_held() -> None:
    world = World(ALERT.replace("30s", "1m"), watching=False)
    fire(world)
    world.now += 5 * INTERVAL
    kinds = []
    for _ in range(4):
        world.write("x", {("x", A): 6.0})
        kinds.append([change.kind for change in world.evaluate()[0].changes])
        world.now += INTERVAL
    assert kinds == [[], [], [ChangeKind.FIRING], []]


def test_a_second_evaluation_at_one_time_does_nothing() -> None:
    world = World(ALERT, watching=False)
    world.write("x", {("x", A): 6.0})
    assert len(world.evaluate()[0].changes) == 1
    (again,) = world.evaluate()
    assert (again.changes, again.samples) == ((), 0)


def test_a_reload_goes_on_where_it_was() -> None:
    world = World(ALERT + RECORD.replace("groups:\n- name: g", "- name: h"), watching=False)
    world.write("x", {("x", A): 6.0})
    world.evaluate()
    world.now += INTERVAL
    world.write("x", {("x", A): 6.0})
    world.evaluate()
    assert len(world.ask("doubled")) == 1
    before, world.manager = world.manager, world.manage(ALERT.replace("x > 5", "x > 4"))
    assert world.manager.inherit(before, world.now) == ()
    assert world.manager.status()[0].rules[0].alerts[0].state is AlertState.PENDING
    # The rules that recorded are gone, and their series with them.
    world.now += 1
    assert world.ask("doubled") == {}
    assert len(world.ask("ALERTS")) == 1
    world.now += INTERVAL - 1
    world.write("x", {("x", A): 5.0})
    (result,) = world.evaluate()
    assert [c.kind for c in result.changes] == [ChangeKind.FIRING]
    assert result.missed == 0


def test_a_changed_annotation_is_told_after_a_reload() -> None:
    def rule(text: str) -> str:
        return ALERT.replace(
            "{{ $labels.instance }} at {{ $value }}", f"{text} {{{{ $labels.job }}}}"
        )

    world = World(rule("old"), watching=False)
    for text in ("old", "new"):
        world.write("x", {("x", A): 6.0})
        before, world.manager = world.manager, world.manage(rule(text))
        world.manager.inherit(before, world.now)
        world.evaluate()
        (alert,) = world.manager.alerts()
        assert alert.annotations["summary"].split()[0] == text
        world.now += INTERVAL


def test_a_firing_alert_whose_rule_is_removed_is_resolved() -> None:
    world = World(ALERT.replace("30s", "0s"), watching=False)
    world.write("x", {("x", A): 6.0})
    world.evaluate()
    before = world.manager
    world.manager = world.manage(ALERT.replace("severity: page", "severity: ticket"))
    (change,) = world.manager.inherit(before, world.now)
    assert (change.kind, change.reason) == (ChangeKind.RESOLVED, "its rule was removed")
    assert change.alert.resolved_at == world.now
    assert change.alert.labels["severity"] == "page"
    assert isinstance(world.manager, RuleManager)
