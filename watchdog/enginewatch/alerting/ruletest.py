"""Running rule tests: the rules over the series of a story, and what came of it against the test.

Time runs as in `promtool test rules`: all groups are evaluated at each step of
the evaluation interval, over the samples up to that step, whatever interval
they ask for; an alert case is judged after the last evaluation that is not
after it, and expressions when the story is over. Absence means false here, as
in Prometheus: a story says all there is to know.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from enginewatch.alerting.dormant import awake
from enginewatch.alerting.manager import RuleManager
from enginewatch.alerting.rules import AlertingRule, Group, RuleFile, load_rule_files
from enginewatch.alerting.runners import vector_of
from enginewatch.alerting.testdiff import alert_difference, sample_difference
from enginewatch.alerting.testfile import (
    AlertCase,
    ExprCase,
    InputSeries,
    TestFile,
    TestGroup,
    load_test_file,
)
from enginewatch.errors import EnginewatchError
from enginewatch.model import Millis
from enginewatch.promql.evaluator import Evaluator
from enginewatch.store.head import Head
from enginewatch.store.source import Source
from enginewatch.units import format_duration
from enginewatch.yamltext import closest

_MARGIN: Final[Millis] = 24 * 3_600_000
"""Kept beyond a story's length: a rule may look back from its first moment."""


@dataclass(frozen=True, slots=True)
class CaseFailure:
    """A case that did not come out: `place` is `file:line:column` of the case."""

    place: str
    title: str
    difference: str = ""

    def __str__(self) -> str:
        indented = "".join(f"\n    {line}" for line in self.difference.splitlines())
        return f"{self.place}: {self.title}{indented}"


@dataclass(frozen=True, slots=True)
class FileResult:
    """How one test file came out. `cases` is how many there are in it."""

    path: str
    cases: int
    failures: tuple[CaseFailure, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.failures


def run_test_files(
    paths: Iterable[str | Path], *, left_closed: bool = False
) -> Iterator[FileResult]:
    """Run test files one after another; gives each result when it is there.

    `left_closed` takes ranges as Prometheus 2.x does, to compare with its promtool.
    Raises RuleFileError when it comes to a file that can't be used.
    """
    for path in paths:
        yield run_test_file(load_test_file(path), left_closed=left_closed)


def run_test_file(file: TestFile, *, left_closed: bool = False) -> FileResult:
    """Run all tests of a file. Raises RuleFileError when its rule files can't be used."""
    found = load_rule_files(file.rule_files)
    # A group's own interval would tell the manager that evaluations were missed.
    steady = [
        RuleFile(each.path, tuple(replace(group, interval=None) for group in each.groups))
        for each in found
    ]
    failures: list[CaseFailure] = []
    for test in file.groups:
        failures += _Story(file, test, steady, left_closed=left_closed).run()
    cases = sum(len(test.alerts) + len(test.exprs) for test in file.groups)
    return FileResult(file.path, cases, tuple(failures), file.warnings)


class _Story:
    """One test group, and the store in which it happens."""

    def __init__(
        self, file: TestFile, test: TestGroup, rules: Sequence[RuleFile], *, left_closed: bool
    ):
        self.file = file
        self.test = test
        length = max([c.at for c in test.alerts] + [c.at for c in test.exprs], default=0)
        self.end = test.start + length
        head = Head(keep=lambda _: length + _MARGIN)
        self.inputs = [
            _Input(head.source(("input", i)), series, test) for i, series in enumerate(test.series)
        ]
        self.evaluator = Evaluator(
            head, default_step=file.evaluation_interval, left_closed=left_closed
        )
        self.manager = RuleManager(
            awake(rules, [series.labels.name for series in test.series]),
            self.evaluator,
            head,
            interval=file.evaluation_interval,
            external_labels=test.external_labels,
            external_url=test.external_url,
        )
        every = (rule for each in rules for group in each.groups for rule in group.rules)
        self.alert_names = {rule.name for rule in every if isinstance(rule, AlertingRule)}
        # Those named in `group_eval_order` first, the others as the files have them.
        place = {name: i for i, name in enumerate(file.group_order)}
        self.groups = sorted(self.manager.groups, key=lambda g: place.get(g.name, len(place)))

    def run(self) -> Iterator[CaseFailure]:
        step = self.file.evaluation_interval
        for now in range(self.test.start, self.end + 1, step):
            for series in self.inputs:
                series.feed(now)
            broken = [failure for group in self.groups for failure in self._evaluate(group, now)]
            yield from broken
            if broken:
                return
            for case in self.test.alerts:
                if now <= self.test.start + case.at < now + step:
                    yield from self._judge_alerts(case)
        for sought in self.test.exprs:
            yield from self._judge_expr(sought)

    def _evaluate(self, group: Group, now: Millis) -> Iterator[CaseFailure]:
        after = format_duration(now - self.test.start)
        for failure in self.manager.evaluate(group, now).failures:
            rule = failure.rule
            title = f"rule {rule.name} ({rule.file}:{rule.line}) fails at {after}"
            yield CaseFailure(self.test.place, self._named(title), failure.message)

    def _judge_alerts(self, case: AlertCase) -> Iterator[CaseFailure]:
        title = self._named(f"{case.alertname} at {format_duration(case.at)}")
        if case.alertname not in self.alert_names:
            hint = closest(case.alertname, self.alert_names)
            yield CaseFailure(case.place, f"{title}: no rule has this alert ({hint})")
            return
        found = [alert for alert in self.manager.alerts() if alert.name == case.alertname]
        difference = alert_difference(case.expected, found, start=self.test.start)
        if difference:
            yield CaseFailure(case.place, title, difference)

    def _judge_expr(self, case: ExprCase) -> Iterator[CaseFailure]:
        title = self._named(f"{case.text} at {format_duration(case.at)}")
        try:
            value = vector_of(self.evaluator.instant(case.expr, self.test.start + case.at))
        except EnginewatchError as failure:
            yield CaseFailure(case.place, title, str(failure))
            return
        difference = sample_difference(case.expected, list(value.samples()), fuzzy=self.file.fuzzy)
        if difference:
            yield CaseFailure(case.place, title, difference)

    def _named(self, title: str) -> str:
        return f"{self.test.name}: {title}" if self.test.name else title


class _Input:
    """Writes one series as time goes on; one source each, so that a gap is not an end."""

    def __init__(self, source: Source, series: InputSeries, test: TestGroup):
        self.source = source
        self.labels = series.labels
        self.values = series.values
        self.start = test.start
        self.interval = test.interval
        self.next = 0

    def feed(self, upto: Millis) -> None:
        """Write the samples that are due."""
        due = min(len(self.values), (upto - self.start) // self.interval + 1)
        for n in range(self.next, due):
            value = self.values[n]
            if value is not None:
                # Asked for anew each time: the store forgets a series that has ended.
                refs = np.array([self.source.resolve(self.labels)], dtype=np.int64)
                self.source.append(self.start + n * self.interval, refs, np.array([value]))
        self.next = max(self.next, due)
