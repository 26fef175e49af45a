"""The alert state machine: tables of (time, what the expression gave), and a naive twin."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from enginewatch.alerting.events import AlertChange, ChangeKind
from enginewatch.alerting.state import (
    NO_ALERTS,
    RESOLVED_RETENTION,
    Alerts,
    Inputs,
    Seen,
    Timing,
    Tracked,
    restore,
    skip_time,
    step,
)
from enginewatch.model import Labels

A = Labels(alertname="A", instance="a:1")
B = Labels(alertname="A", instance="b:1")
SECOND = 1000

# What an evaluation can find: the expression holds, is seen to be false, can't be
# seen, or its target is no longer configured.
HOLDS, CLEAR, BLIND, GONE = "!", ".", "?", "-"
JUDGED = {CLEAR: Inputs.KNOWN, BLIND: Inputs.UNKNOWN, GONE: Inputs.GONE}
SHOWN = {"pending": "p", "firing": "F", "resolved": "r"}


def evaluate(
    alerts: Alerts, now: int, found: str, timing: Timing, labels: Labels = A
) -> tuple[Alerts, tuple[AlertChange, ...]]:
    active = {labels: Seen(float(now), {"summary": f"at {now}"})} if found == HOLDS else {}

    def judge(_: Tracked) -> Inputs:
        return JUDGED.get(found, Inputs.KNOWN)

    return step(alerts, now, active, timing, judge)


def shown(alerts: Alerts, labels: Labels = A) -> str:
    """`p`, `F`, `r`, or a blank; with a ? when unknown."""
    tracked = alerts.get(labels)
    if tracked is None:
        return " "
    return SHOWN[tracked.alert.state] + ("?" if tracked.alert.unknown else "")


def life(found: str, hold: int = 0, keep: int = 0, every: int = 10) -> str:
    """The alert's states through evaluations every ten seconds, as one word each."""
    alerts, states = NO_ALERTS, []
    for i, each in enumerate(found):
        timing = Timing(hold * SECOND, keep * SECOND)
        alerts, _ = evaluate(alerts, i * every * SECOND, each, timing)
        states.append(shown(alerts).strip() or "_")
    return " ".join(states)


@pytest.mark.parametrize(
    ("found", "hold", "keep", "states"),
    [
        # Prometheus' own semantics.
        ("!!.", 0, 0, "F F r"),
        ("!!!!.", 30, 0, "p p p F r"),
        ("!!.!!!!", 30, 0, "p p _ p p p F"),
        ("!..!.....", 0, 20, "F F F F F F r r r"),
        ("!.!", 30, 20, "p _ p"),
        ("!.!", 10, 0, "p _ p"),
        ("!!.!", 10, 0, "p F r p"),
        # Absence never resolves, and no clock runs through it.
        ("!????.", 0, 0, "F F? F? F? F? r"),
        ("!?!?.", 0, 0, "F F? F F? r"),
        ("!!?!!!", 30, 0, "p p p? p F F"),
        ("!?!?!?!?!", 30, 0, "p p? p p? p p? F F? F"),
        ("!?!?!?!", 20, 0, "p p? p p? F F? F"),
        ("!!???!!", 30, 0, "p p p? p? p? p F"),
        ("!!?????!", 20, 0, "p p p? p? p? _ _ p"),
        ("!!?.", 30, 0, "p p p? _"),
        ("!.??....", 0, 30, "F F F? F? F F r r"),
        ("!??...", 0, 20, "F F? F? F F r"),
        ("!.?!..", 0, 20, "F F F? F F F"),
        # A target that was taken out of the configuration.
        ("!??-.", 0, 0, "F F? F? r r"),
        ("!-", 30, 0, "p _"),
        ("!.-", 0, 60, "F F r"),
    ],
)
def test_lives(found: str, hold: int, keep: int, states: str) -> None:
    assert life(found, hold, keep) == states


def test_value_and_annotations_follow_each_evaluation_and_then_stay() -> None:
    alerts, _ = evaluate(NO_ALERTS, 0, HOLDS, Timing())
    alerts, changes = evaluate(alerts, 5, HOLDS, Timing())
    assert changes == ()
    alert = alerts[A].alert
    assert (alert.value, alert.annotations, alert.active_at, alert.fired_at) == (
        5.0,
        {"summary": "at 5"},
        0,
        0,
    )
    alerts, (change,) = evaluate(alerts, 9, CLEAR, Timing())
    assert change.kind is ChangeKind.RESOLVED
    assert (change.alert.value, change.alert.resolved_at) == (5.0, 9)
    assert change.alert.annotations == {"summary": "at 5"}


def test_a_resolved_alert_is_kept_for_a_while_and_may_fire_anew() -> None:
    alerts, _ = evaluate(NO_ALERTS, 0, HOLDS, Timing())
    alerts, _ = evaluate(alerts, 1, CLEAR, Timing())
    again, (change,) = evaluate(alerts, 2, HOLDS, Timing())
    assert change.kind is ChangeKind.FIRING
    assert again[A].alert.active_at == 2
    alerts, _ = evaluate(alerts, 1 + RESOLVED_RETENTION, CLEAR, Timing())
    assert A in alerts
    alerts, changes = evaluate(alerts, 2 + RESOLVED_RETENTION, CLEAR, Timing())
    assert (alerts, changes) == ({}, ())


def test_changes_tell_incidents_and_reasons() -> None:
    kinds = []
    alerts = NO_ALERTS
    for i, found in enumerate("!!??!?-"):
        alerts, changes = evaluate(alerts, i * SECOND, found, Timing(SECOND))
        kinds += [(i, change.kind.value, change.reason) for change in changes]
    assert kinds == [
        (0, "pending", ""),
        (1, "firing", ""),
        (2, "unknown", ""),
        (4, "known", ""),
        (5, "unknown", ""),
        (6, "resolved", "its target is no longer configured"),
    ]


def test_raising_for_sends_a_firing_alert_back_to_pending() -> None:
    alerts, _ = evaluate(NO_ALERTS, 0, HOLDS, Timing(0))
    alerts, (change,) = evaluate(alerts, 10, HOLDS, Timing(20))
    assert change.kind is ChangeKind.DEMOTED
    assert change.ends_incident
    alerts, (change,) = evaluate(alerts, 20, HOLDS, Timing(20))
    assert change.begins_incident
    assert change.alert.active_at == 0


def test_a_clock_set_back_does_not_send_a_firing_alert_back_to_pending() -> None:
    alerts, _ = evaluate(NO_ALERTS, 5_000_000, HOLDS, Timing(20_000))
    alerts, _ = evaluate(alerts, 5_020_000, HOLDS, Timing(20_000))
    alerts, changes = evaluate(alerts, 1_000_000, HOLDS, Timing(20_000))
    assert (shown(alerts), changes) == ("F", ())


def test_inputs_are_asked_only_about_active_alerts_that_are_absent() -> None:
    alerts, _ = evaluate(NO_ALERTS, 0, HOLDS, Timing(), A)
    alerts, _ = evaluate(alerts, 0, CLEAR, Timing())
    asked: list[Labels] = []

    def judge(tracked: Tracked) -> Inputs:
        asked.append(tracked.alert.labels)
        return Inputs.KNOWN

    step(alerts, 1, {B: Seen(1.0, {})}, Timing(), judge)
    assert asked == []


@pytest.mark.parametrize(
    ("hold", "held", "down", "left"),
    [
        # Downtime does not count: 4 of 40 minutes gathered, 36 to go.
        (40, 4, 30, 36),
        # None fires sooner than the grace period after the restart.
        (40, 35, 5, 10),
        (40, 40, 5, 0),
        # Rules that wait for less than that start anew, and all after a long outage.
        (9, 5, 1, None),
        (40, 4, 61, None),
        (40, 4, 60, 36),
    ],
)
def test_pending_alerts_are_restored_as_prometheus_does(
    hold: int, held: int, down: int, left: int | None
) -> None:
    minute = 60 * SECOND
    saved_at = held * minute
    alerts, _ = evaluate(NO_ALERTS, 0, HOLDS, Timing(hold * minute + 1))
    now = saved_at + down * minute
    restored = restore(alerts, saved_at, now, hold * minute)
    if left is None:
        assert restored == {}
    else:
        assert hold * minute - (now - restored[A].alert.active_at) == left * minute


def test_firing_and_resolved_alerts_outlive_any_outage() -> None:
    alerts, _ = evaluate(NO_ALERTS, 0, HOLDS, Timing())
    alerts, _ = evaluate(alerts, 1, HOLDS, Timing(), B)
    day = 86_400 * SECOND
    restored = restore(alerts, 1, day, 0)
    assert [restored[A].alert, restored[B].alert] == [alerts[A].alert, alerts[B].alert]


class TwinMachine(RuleBasedStateMachine):
    """A twin that adds up held time instead of comparing timestamps."""

    @initialize(hold=st.sampled_from([0, 5, 30]), keep=st.sampled_from([0, 5, 30]))
    def begin(self, hold: int, keep: int) -> None:
        self.hold, self.keep = hold, keep
        self.grace, self.tolerance = 10, 100
        self.now = 1000
        self.alerts: Alerts = NO_ALERTS
        self.changes: list[ChangeKind] = []
        self.phase, self.blind, self.last = " ", False, CLEAR
        self.held = self.gap = self.resolved_at = 0
        self.cleared: int | None = None

    @rule(found=st.sampled_from([HOLDS, CLEAR, BLIND, GONE]), after=st.sampled_from([1, 5, 15]))
    def evaluate(self, found: str, after: int) -> None:
        self.now += after
        timing = Timing(self.hold, self.keep)
        self.alerts, changes = evaluate(self.alerts, self.now, found, timing)
        self.changes += [change.kind for change in changes]
        turn = {" ": self.idle, "r": self.idle, "p": self.pending, "F": self.firing}[self.phase]
        turn(found, after)
        self.blind = found == BLIND and self.phase in "pF"
        self.last = found

    def idle(self, found: str, after: int) -> None:
        if found == HOLDS:
            self.phase, self.held, self.gap, self.cleared = "p", 0, 0, None
            self.promote()
        elif self.phase == "r" and self.now - self.resolved_at > RESOLVED_RETENTION:
            self.phase = " "

    def promote(self) -> None:
        if self.held >= self.hold:
            self.phase = "F"

    def pending(self, found: str, after: int) -> None:
        self.held += after if self.last == HOLDS else 0
        self.gap = self.gap + after if self.last == BLIND else 0
        if found == HOLDS:
            self.promote()
        elif found != BLIND or self.gap > self.hold:
            self.phase = " "

    def firing(self, found: str, after: int) -> None:
        if found == HOLDS:
            self.cleared = None
            return
        if self.cleared is not None and self.last == CLEAR:
            self.cleared += after
        if found == CLEAR and self.cleared is None:
            self.cleared = 0
        ended = self.cleared is not None and self.cleared >= self.keep
        if found == GONE or (found == CLEAR and ended):
            self.phase, self.resolved_at = "r", self.now

    @rule(down=st.sampled_from([0, 7, 99, 101, 5000]))
    def restart(self, down: int) -> None:
        self.alerts = restore(
            self.alerts,
            self.now,
            self.now + down,
            self.hold,
            tolerance=self.tolerance,
            grace=self.grace,
        )
        self.now += down
        if self.phase == "p":
            if self.hold < self.grace or down > self.tolerance:
                self.phase, self.blind = " ", False
            elif 0 < self.remaining() < self.grace:
                self.held = self.hold - self.grace

    def remaining(self) -> int:
        return self.hold - self.held

    @rule(span=st.sampled_from([-3600, -3, 4, 3600]))
    def clock_jumps(self, span: int) -> None:
        self.alerts = skip_time(self.alerts, span)
        self.now += span

    @invariant()
    def agrees(self) -> None:
        assert shown(self.alerts) == self.phase + ("?" if self.blind else "")

    @invariant()
    def incidents_alternate(self) -> None:
        marks = [k for k in self.changes if k in (ChangeKind.FIRING, ChangeKind.RESOLVED)]
        assert all(a is not b for a, b in itertools.pairwise(marks))


TestTwin = TwinMachine.TestCase
TestTwin.settings = settings(deadline=None, max_examples=80, stateful_step_count=30)
