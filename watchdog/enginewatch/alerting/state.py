"""The state machine of one alerting rule: what is active now, what was, what becomes of it.

A pure function of (state, now, result). Known inputs follow Prometheus'
`rules/alerting.go`: pending for `for`, then firing; a pending alert that clears
is forgotten; `keep_firing_for` counts from the first clear evaluation; resolved
alerts stay for 15 minutes, so that nobody who was told of them misses the end.

What is ours is UNKNOWN. An alert that is absent from the result was either seen
to be false or could not be seen at all, and the caller tells which (`Inputs`).
Absence never resolves:

- firing, inputs unknown: it fires on, marked unknown;
- pending, inputs unknown: it waits, at most as long as the rule's `for`; a longer
  gap says nothing about what happened in it, and the alert is dropped;
- no clock runs through the unknown: neither `for` nor `keep_firing_for` counts it;
- inputs back: it is judged like any other alert, with the time it had gathered;
- inputs gone on purpose (their target left the configuration long enough ago):
  it resolves, and the change says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

from enginewatch.alerting.events import AlertChange, ChangeKind
from enginewatch.model import Alert, AlertState, Labels, Millis

RESOLVED_RETENTION: Final[Millis] = 15 * 60_000
"""How long a resolved alert is still reported, as in Prometheus."""

OUTAGE_TOLERANCE: Final[Millis] = 60 * 60_000
"""A pending alert older than this after an outage starts anew (Prometheus' flag of that name)."""

GRACE_PERIOD: Final[Millis] = 10 * 60_000
"""The least time between a restart and the firing of an alert that was pending before it."""


class Inputs(Enum):
    """Whether the absence of an alert from the result can mean that it is false."""

    KNOWN = "known"
    UNKNOWN = "unknown"
    GONE = "gone"


class Source(NamedTuple):
    """A target that an alert's truth was computed from, by its labels."""

    job: str
    instance: str


NO_SOURCES: Final[Mapping[Source, Millis]] = MappingProxyType({})


class Seen(NamedTuple):
    """One element of the expression's result, its templates expanded.

    `sources` are the targets that spoke for it, each with the time it last did.
    """

    value: float
    annotations: Mapping[str, str]
    sources: Mapping[Source, Millis] = NO_SOURCES


@dataclass(frozen=True, slots=True)
class Tracked:
    """An alert and its clocks.

    `clear_since` is when a firing alert was first seen to be false (the start of
    `keep_firing_for`), `unknown_since` when its inputs went missing.
    """

    alert: Alert
    clear_since: Millis | None = None
    unknown_since: Millis | None = None
    sources: Mapping[Source, Millis] = field(default_factory=dict, compare=False)


Alerts = Mapping[Labels, Tracked]
NO_ALERTS: Final[Alerts] = MappingProxyType({})


class Timing(NamedTuple):
    """A rule's `for` and `keep_firing_for`."""

    hold: Millis = 0
    keep_firing: Millis = 0


class Step(NamedTuple):
    alerts: Alerts
    changes: tuple[AlertChange, ...]


def always_known(_: Tracked) -> Inputs:
    """The judgement of Prometheus, to which whatever is absent is false."""
    return Inputs.KNOWN


def step(
    alerts: Alerts,
    now: Millis,
    active: Mapping[Labels, Seen],
    timing: Timing,
    inputs: Callable[[Tracked], Inputs] = always_known,
) -> Step:
    """The alerts after an evaluation at `now` whose result was `active`, and what changed.

    Keys are the alerts' whole labels, `alertname` among them. `inputs` is asked
    about active alerts that are absent from the result, and about no others.
    """
    after: dict[Labels, Tracked] = {}
    changes: list[AlertChange] = []
    for labels, seen in active.items():
        before = alerts.get(labels)
        tracked = _present(labels, before, seen, now, timing)
        after[labels] = tracked
        _note(changes, before, tracked, now)
    for labels, before in alerts.items():
        if labels in active:
            continue
        left, reason = _absent(before, now, timing, inputs)
        if left is not None:
            after[labels] = left
        _note(changes, before, left, now, reason)
    return Step(after, tuple(changes))


def _present(
    labels: Labels, before: Tracked | None, seen: Seen, now: Millis, timing: Timing
) -> Tracked:
    active_at, fired_at = now, None
    if before is not None and before.alert.resolved_at is None:
        active_at, fired_at = before.alert.active_at, before.alert.fired_at
        if fired_at is None and before.unknown_since is not None:
            active_at += now - before.unknown_since
    if fired_at is None:
        if now - active_at >= timing.hold:
            fired_at = now
    elif max(now, fired_at) - active_at < timing.hold:
        # The rule's `for` was raised, and this alert has not yet held for so long.
        fired_at = None
    alert = Alert(labels, seen.annotations, seen.value, active_at, fired_at)
    return Tracked(alert, sources=seen.sources)


def _absent(
    before: Tracked, now: Millis, timing: Timing, inputs: Callable[[Tracked], Inputs]
) -> tuple[Tracked | None, str]:
    if before.alert.state is AlertState.RESOLVED:
        kept = now - (before.alert.resolved_at or 0) <= RESOLVED_RETENTION
        return (before if kept else None), ""
    judged = inputs(before)
    if judged is Inputs.UNKNOWN:
        return _blinded(before, now, timing)
    if before.alert.state is AlertState.PENDING:
        return None, ""
    if judged is Inputs.GONE:
        return _resolved(before, now), "its target is no longer configured"
    return _cleared(before, now, timing), ""


def _blinded(before: Tracked, now: Millis, timing: Timing) -> tuple[Tracked | None, str]:
    """An active alert about which nothing can be told at this evaluation."""
    since = now if before.unknown_since is None else before.unknown_since
    if before.alert.state is AlertState.PENDING and now - since > timing.hold:
        return None, "its inputs were missing for longer than the rule's `for`"
    alert = replace(before.alert, unknown=True)
    return replace(before, alert=alert, unknown_since=since), ""


def _cleared(before: Tracked, now: Millis, timing: Timing) -> Tracked:
    """A firing alert that was seen to be false."""
    since = now if before.clear_since is None else before.clear_since
    if before.clear_since is not None and before.unknown_since is not None:
        since += now - before.unknown_since
    if now - since >= timing.keep_firing:
        return _resolved(before, now)
    alert = replace(before.alert, unknown=False)
    return replace(before, alert=alert, clear_since=since, unknown_since=None)


def _resolved(before: Tracked, now: Millis) -> Tracked:
    return Tracked(replace(before.alert, resolved_at=now, unknown=False), sources=before.sources)


def resolve_all(alerts: Alerts, now: Millis) -> tuple[Alert, ...]:
    """The firing alerts of a rule that is no more, resolved."""
    return tuple(
        _resolved(tracked, now).alert
        for tracked in alerts.values()
        if tracked.alert.state is AlertState.FIRING
    )


def _note(
    changes: list[AlertChange],
    before: Tracked | None,
    after: Tracked | None,
    now: Millis,
    reason: str = "",
) -> None:
    """Adds the change between two states of an alert, if there is one to tell."""
    was = before.alert if before else None
    if after is None:
        if was is not None and was.state is AlertState.PENDING:
            changes.append(AlertChange(ChangeKind.DROPPED, was, now, reason))
        return
    kind = _change(was, after.alert)
    if kind is not None:
        changes.append(AlertChange(kind, after.alert, now, reason))


def _change(was: Alert | None, alert: Alert) -> ChangeKind | None:
    before = was.state if was else AlertState.RESOLVED
    if before is not alert.state:
        if before is AlertState.FIRING and alert.state is AlertState.PENDING:
            return ChangeKind.DEMOTED
        return ChangeKind(alert.state.value)
    if was is not None and was.unknown is not alert.unknown:
        return ChangeKind.UNKNOWN if alert.unknown else ChangeKind.KNOWN
    return None


def skip_time(alerts: Alerts, span: Millis, tolerance: Millis = OUTAGE_TOLERANCE) -> Alerts:
    """Moves all running clocks by `span`, so that it counts for none of them.

    For time in which nothing was evaluated (the machine slept, the evaluator was
    stuck), and with a negative span for a wall clock that was set back. Pending
    alerts are dropped when the gap is longer than `tolerance`.
    """
    moved: dict[Labels, Tracked] = {}
    for labels, tracked in alerts.items():
        alert = tracked.alert
        if alert.state is AlertState.PENDING:
            if span > tolerance:
                continue
            alert = replace(alert, active_at=alert.active_at + span)
        moved[labels] = replace(
            tracked,
            alert=alert,
            clear_since=_moved(tracked.clear_since, span),
            unknown_since=_moved(tracked.unknown_since, span),
        )
    return moved


def _moved(at: Millis | None, span: Millis) -> Millis | None:
    return None if at is None else at + span


def restore(
    alerts: Alerts,
    saved_at: Millis,
    now: Millis,
    hold: Millis,
    *,
    tolerance: Millis = OUTAGE_TOLERANCE,
    grace: Millis = GRACE_PERIOD,
) -> Alerts:
    """The alerts of a rule as they go on after a restart, saved at `saved_at` and read at `now`.

    Firing and resolved alerts go on however long the outage was: someone was told
    of them. Pending alerts go on as in Prometheus: the outage does not count
    towards `for`; none fires sooner than `grace` after the restart; those of rules
    that wait for less than that, and all after an outage longer than `tolerance`,
    start anew.
    """
    kept: dict[Labels, Tracked] = {}
    for labels, tracked in skip_time(alerts, max(0, now - saved_at), tolerance).items():
        alert = tracked.alert
        if alert.state is AlertState.PENDING:
            if hold < grace:
                continue
            if 0 < hold - (now - alert.active_at) < grace:
                alert = replace(alert, active_at=now + grace - hold)
        kept[labels] = replace(tracked, alert=alert)
    return kept
