"""Evaluates groups of rules: recorded series and alerts into the store, changes to the caller.

The caller keeps the clock and calls `evaluate` for each group at its interval.
What happens when the clock or the caller does not:

- an evaluation that comes late is counted as missed evaluations and otherwise as
  any other: up to `MOST_MISSED` intervals count as time in which alerts held;
- a longer gap (a suspended machine, a stuck evaluator), or a clock that was set
  back, counts as one interval: all clocks of alerts are moved by the rest. The
  store's data is then too old or too new to tell truth from absence, so no
  alert clears until inputs have settled (with an input watch only);
- a second evaluation at the same time does nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from enginewatch.alerting.events import (
    AlertChange,
    ChangeKind,
    GroupResult,
    GroupStatus,
    Health,
    RuleFailure,
    RuleStatus,
)
from enginewatch.alerting.inputs import InputWatch
from enginewatch.alerting.rules import Group, RecordingRule, Rule, RuleFile
from enginewatch.alerting.runners import (
    AlertingRunner,
    Appends,
    Evaluates,
    Moment,
    RecordingRunner,
    Runner,
    Surroundings,
)
from enginewatch.alerting.snapshot import RuleKey, Snapshot
from enginewatch.alerting.state import resolve_all, restore, skip_time
from enginewatch.errors import EnginewatchError
from enginewatch.model import EMPTY_LABELS, Alert, AlertState, Labels, Millis

MOST_MISSED: Final = 4
"""A gap of more intervals than this is no longer time in which an alert held.

Prometheus tells Alertmanager to take an alert for resolved after as many.
"""

_LOG: Final = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _GroupRun:
    """A group, its rules' runners, and what is known of its past.

    Until `settled_at`, absence does not count as false.
    """

    group: Group
    interval: Millis
    runners: tuple[Runner, ...]
    status: list[RuleStatus]
    lock: Lock = field(default_factory=Lock)
    evaluated_at: Millis | None = None
    seconds: float = 0.0
    missed: int = 0
    settled_at: dict[Rule, Millis] = field(default_factory=dict)


class RuleManager:
    """The rules of one configuration. `evaluate` of different groups may run in different threads.

    `interval` is for groups that give none. Without `watch` an alert that is
    absent from the result is false, as in Prometheus and in rule tests; with it,
    absence never resolves (`alerting.state`).
    """

    def __init__(
        self,
        files: Iterable[RuleFile],
        evaluator: Evaluates,
        appender: Appends,
        *,
        interval: Millis,
        external_labels: Labels = EMPTY_LABELS,
        external_url: str = "",
        watch: InputWatch | None = None,
        stopwatch: Callable[[], float] = time.perf_counter,
    ):
        self._surroundings: Final = Surroundings(evaluator, external_labels, external_url)
        self._watch: Final = watch
        self._stopwatch: Final = stopwatch
        self._failed_at: Final[dict[Rule, Millis]] = {}
        self._runs: Final[dict[Group, _GroupRun]] = {
            group: _start(group, interval, appender) for file in files for group in file.groups
        }

    @property
    def groups(self) -> tuple[Group, ...]:
        return tuple(self._runs)

    def interval(self, group: Group) -> Millis:
        return self._runs[group].interval

    def evaluate(self, group: Group, now: Millis) -> GroupResult:
        """Evaluates the rules of `group` at `now`, in order. Rules that fail don't stop others."""
        run = self._runs[group]
        with run.lock:
            if run.evaluated_at == now:
                return GroupResult(group, now)
            missed, jumped = self._catch_up(run, now)
            started = self._stopwatch()
            changes, samples, failures = self._evaluate(run, now)
            run.seconds = self._stopwatch() - started
            run.evaluated_at = now
            run.missed += missed
        return GroupResult(
            group, now, tuple(changes), samples, tuple(failures), run.seconds, missed, jumped
        )

    def status(self) -> tuple[GroupStatus, ...]:
        """All groups and rules, in the order of the files."""
        return tuple(
            GroupStatus(
                run.group,
                run.interval,
                tuple(run.status),
                run.evaluated_at,
                run.seconds,
                run.missed,
            )
            for run in self._runs.values()
        )

    def alerts(self) -> tuple[Alert, ...]:
        """All alerts: pending, firing, and those resolved a short while ago."""
        return tuple(
            tracked.alert for _, runner in self._alerting() for tracked in runner.alerts.values()
        )

    def snapshot(self, now: Millis) -> Snapshot:
        """The alerts to save, for `restore` in another process."""
        alerts = {
            RuleKey.of(run.group.name, runner.rule): runner.alerts
            for run, runner in self._alerting()
            if runner.alerts
        }
        return Snapshot(now, alerts)

    def restore(self, saved: Snapshot, now: Millis) -> tuple[AlertChange, ...]:
        """Takes over what an earlier process saved, before the first evaluation.

        Gives the resolved alerts of rules that are no more: somebody was told of
        them, and no evaluation will ever end them.
        """
        return self._take_over(saved, now, restarted=True)

    def inherit(self, before: RuleManager, now: Millis) -> tuple[AlertChange, ...]:
        """Goes on from the manager of an earlier configuration, which must not be used any more.

        Alerts, clocks and health of rules that are still there stay as they are;
        the series of rules that are gone end. Gives changes as `restore` does.
        """
        changes = self._take_over(before.snapshot(now), now, restarted=False)
        by_place = {(g.file, g.name): run for g, run in before._runs.items()}
        kept = {runner.key for run in self._runs.values() for runner in run.runners}
        for group, run in self._runs.items():
            was = by_place.get((group.file, group.name))
            if was is not None:
                run.evaluated_at, run.missed = was.evaluated_at, was.missed
            # What new rules record is not there yet.
            self._unsettle(run, now)
        for run in before._runs.values():
            for runner in run.runners:
                if runner.key not in kept:
                    runner.source.remove(now)
        return changes

    def _take_over(
        self, saved: Snapshot, now: Millis, *, restarted: bool
    ) -> tuple[AlertChange, ...]:
        left = dict(saved.alerts)
        for run, runner in self._alerting():
            alerts = left.pop(RuleKey.of(run.group.name, runner.rule), None)
            if alerts is None:
                continue
            if restarted:
                alerts = restore(alerts, saved.saved_at, now, runner.rule.for_)
            runner.alerts = alerts
            _show(run, runner)
        return tuple(
            AlertChange(ChangeKind.RESOLVED, alert, now, "its rule was removed")
            for alerts in left.values()
            for alert in resolve_all(alerts, now)
        )

    def _catch_up(self, run: _GroupRun, now: Millis) -> tuple[int, Millis]:
        """Evaluations missed since the last one, and how far clocks were moved."""
        if run.evaluated_at is None:
            self._unsettle(run, now)
            return 0, 0
        passed = now - run.evaluated_at
        missed = max(0, passed // run.interval - 1)
        if 0 < passed <= MOST_MISSED * run.interval:
            return missed, 0
        jumped = passed - run.interval
        for runner in run.runners:
            if isinstance(runner, AlertingRunner):
                runner.alerts = skip_time(runner.alerts, jumped)
        self._unsettle(run, now)
        return missed, jumped

    def _unsettle(self, run: _GroupRun, now: Millis) -> None:
        if self._watch is not None:
            for runner in run.runners:
                run.settled_at[runner.rule] = now + self._watch.standing(runner.rule).settle

    def _evaluate(
        self, run: _GroupRun, now: Millis
    ) -> tuple[list[AlertChange], int, list[RuleFailure]]:
        at = now - (run.group.query_offset or 0)
        view = self._watch.at(at) if self._watch else None
        changes: list[AlertChange] = []
        failures: list[RuleFailure] = []
        samples = 0
        for place, runner in enumerate(run.runners):
            started = self._stopwatch()
            error = ""
            try:
                moment = Moment(now, at, view, self._is_settled(run, runner.rule, now))
                if isinstance(runner, RecordingRunner):
                    samples += runner.evaluate(self._surroundings, moment)
                else:
                    changes += runner.advance(self._surroundings, moment)
                    samples += runner.write(at)
            except EnginewatchError as failure:
                error = str(failure)
            except Exception as failure:  # noqa: BLE001 - one rule's defect must not blind all
                _LOG.exception("%s:%d: rule %s", *_place(runner.rule))
                error = f"internal error: {failure!r}"
            if error:
                runner.fail(at)
                self._failed_at[runner.rule] = now
                failures.append(RuleFailure(runner.rule, error))
            run.status[place] = RuleStatus(
                runner.rule,
                Health.FAILED if error else Health.OK,
                error,
                now,
                self._stopwatch() - started,
                _shown(runner),
            )
        return changes, samples, failures

    def _is_settled(self, run: _GroupRun, rule: Rule, now: Millis) -> bool:
        """Whether the rules themselves have been running well for long enough to trust absence."""
        if self._watch is None or isinstance(rule, RecordingRule):
            return True
        standing = self._watch.standing(rule)
        if now < run.settled_at.get(rule, now):
            return False
        failed = (self._failed_at.get(feeding) for feeding in standing.feeding)
        return all(at is None or abs(now - at) >= standing.settle for at in failed)

    def _alerting(self) -> Iterator[tuple[_GroupRun, AlertingRunner]]:
        for run in self._runs.values():
            for runner in run.runners:
                if isinstance(runner, AlertingRunner):
                    yield run, runner


def _start(group: Group, interval: Millis, appender: Appends) -> _GroupRun:
    runners: list[Runner] = []
    for index, rule in enumerate(group.rules):
        key = ("rule", group.file, group.name, index)
        source = appender.source(key)
        if isinstance(rule, RecordingRule):
            runners.append(RecordingRunner(rule, key, source, group.limit))
        else:
            runners.append(AlertingRunner(rule, key, source, group.limit))
    status = [RuleStatus(rule) for rule in group.rules]
    return _GroupRun(group, group.interval or interval, tuple(runners), status)


def _show(run: _GroupRun, runner: Runner) -> None:
    place = run.runners.index(runner)
    run.status[place] = RuleStatus(runner.rule, alerts=_shown(runner))


def _shown(runner: Runner) -> tuple[Alert, ...]:
    if isinstance(runner, RecordingRunner):
        return ()
    found = (tracked.alert for tracked in runner.alerts.values())
    return tuple(alert for alert in found if alert.state is not AlertState.RESOLVED)


def _place(rule: Rule) -> tuple[str, int, str]:
    return rule.file, rule.line, rule.name
