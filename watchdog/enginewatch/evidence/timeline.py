"""Evidence as series: samples with times, judged by the rules that judge a live engine.

Each timeline (one source's pages, one log's periodic lines, the facts of all
documents) gets a store of its own. At each of its times the shipped rules and
those of `rules/diagnose` are evaluated; the latter have a month's lookback,
because evidence after the fact comes in a handful of samples, minutes apart.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from enginewatch.alerting.dormant import awake
from enginewatch.alerting.events import ChangeKind
from enginewatch.alerting.manager import RuleManager
from enginewatch.alerting.rules import RecordingRule, RuleFile, load_rule_files
from enginewatch.alerting.runners import vector_of
from enginewatch.errors import EnginewatchError
from enginewatch.evidence.verdict import Evidence
from enginewatch.model import Alert, Labels, Millis, Sample
from enginewatch.promql.evaluator import Evaluator
from enginewatch.rulepack import rule_files, rules_path
from enginewatch.store.head import Head

_MONTH: Final[Millis] = 30 * 86_400_000
_SHIPPED_INTERVAL: Final[Millis] = 5_000
_TEST_SUFFIX: Final = ".test.yml"
MOST_TIMES: Final = 300
"""Times at which rules are evaluated; of a longer series, neighbours at even distances."""

FIELD_METRIC: Final = "diagnose:field"
"""What rules/diagnose record at the end: a field of the verdict of the alert in label `of`."""


class Round(NamedTuple):
    """All that one writer said at one time."""

    writer: Hashable
    at: Millis
    samples: tuple[Sample, ...]


@dataclass(slots=True)
class Timeline:
    """The rounds of one kind of evidence.

    `evidence` is where each round stands, by its time; `lines` where each value of
    the label `line` does.
    """

    name: str
    rounds: list[Round] = field(default_factory=list)
    evidence: dict[Millis, Evidence] = field(default_factory=dict)
    lines: dict[str, Evidence] = field(default_factory=dict)

    def add(
        self,
        writer: Hashable,
        at: Millis,
        samples: Iterable[Sample],
        evidence: Evidence | None = None,
    ) -> None:
        self.rounds.append(Round(writer, at, tuple(samples)))
        if evidence is not None:
            self.evidence.setdefault(at, evidence)

    def place(self, alert: Alert, at: Millis) -> Evidence | None:
        """Where an alert that fired at a time has its evidence."""
        return self.lines.get(alert.labels.get("line", "")) or self.evidence.get(at)


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that judge a timeline: those of the daemon, and those for a handful of samples."""

    shipped: tuple[RuleFile, ...]
    diagnose: tuple[RuleFile, ...]


@cache
def shipped_rules() -> Rules:
    root = rules_path()
    return Rules(load_rule_files(rule_files(root)), load_rule_files(diagnose_files(root)))


def diagnose_files(root: Path) -> tuple[Path, ...]:
    found = sorted((root / "diagnose").glob("*.yml"))
    return tuple(path for path in found if not path.name.endswith(_TEST_SUFFIX))


@dataclass(frozen=True, slots=True)
class Judgement:
    """Alerts with the times at which they fired, and the fields recorded at the end."""

    alerts: Sequence[tuple[Alert, Millis]]
    fields: Sequence[tuple[Labels, float]]
    failures: Sequence[str]


def judge_timeline(timeline: Timeline, rules: Rules) -> Judgement:
    """What the rules find along the timeline, each alert once."""
    rounds = sorted(timeline.rounds, key=lambda one: one.at)
    if not rounds:
        return Judgement((), (), ())
    # A page's own times may begin at 0; a month of lookback must not reach before the epoch.
    shift = max(0, 2 * _MONTH - rounds[0].at)
    run = _Run(rules, {sample.labels.name for one in rounds for sample in one.samples})
    fired: dict[Labels, tuple[Alert, Millis]] = {}
    times = _chosen({one.at for one in rounds})
    place = 0
    for at in times:
        while place < len(rounds) and rounds[place].at <= at:
            run.write(rounds[place], shift)
            place += 1
        for alert in run.advance(at + shift):
            fired[alert.labels] = (alert, at)
    fields = list(run.fields(times[-1] + shift))
    return Judgement(tuple(fired.values()), fields, tuple(dict.fromkeys(run.failures)))


def _chosen(times: set[Millis]) -> list[Millis]:
    """All times, or pairs of neighbours, because rules compare one with the one before."""
    ordered = sorted(times)
    stride = -(-len(ordered) // MOST_TIMES)
    if stride == 1:
        return ordered
    pairs = range(0, len(ordered) - 1, 2 * stride)
    return sorted({*(ordered[n + side] for n in pairs for side in (0, 1)), *ordered[-2:]})


class _Run:
    """A store, and managers of the rules that series of these names can wake."""

    def __init__(self, rules: Rules, names: set[str]):
        self.failures: Final[list[str]] = []
        self._head: Final = Head(keep=lambda _: 2 * _MONTH)
        self._evaluator: Final = Evaluator(self._head, lookback=_MONTH)
        shipped = awake(rules.shipped, names)
        recorded = {rule.name for file in shipped for group in file.groups for rule in group.rules}
        diagnose = awake(rules.diagnose, names | recorded)
        self._fields: Final = [
            rule
            for file in diagnose
            for group in file.groups
            for rule in group.rules
            if isinstance(rule, RecordingRule) and rule.name == FIELD_METRIC
        ]
        self._managers: Final = (
            RuleManager(shipped, Evaluator(self._head), self._head, interval=_SHIPPED_INTERVAL),
            RuleManager(_without_fields(diagnose), self._evaluator, self._head, interval=_MONTH),
        )

    def write(self, one: Round, shift: Millis) -> None:
        source = self._head.source(one.writer)
        resolved = [(source.resolve(sample.labels), sample.value) for sample in one.samples]
        kept = [(ref, value) for ref, value in resolved if ref is not None]
        refs = np.array([ref for ref, _ in kept], dtype=np.int64)
        values = np.array([value for _, value in kept], dtype=np.float64)
        source.append(one.at + shift, refs, values)

    def advance(self, at: Millis) -> Iterator[Alert]:
        """Evaluate everything at a time; the alerts that begin to fire."""
        for manager in self._managers:
            for group in manager.groups:
                if not group.rules:
                    continue
                result = manager.evaluate(group, at)
                for failure in result.failures:
                    self._fail(failure.rule.name, failure.message)
                for change in result.changes:
                    if change.kind is ChangeKind.FIRING:
                        yield change.alert

    def fields(self, at: Millis) -> Iterator[tuple[Labels, float]]:
        for rule in self._fields:
            try:
                vector = vector_of(self._evaluator.instant(rule.expr, at))
            except EnginewatchError as failure:
                self._fail(f"{FIELD_METRIC} {rule.labels.get('field', '')}", str(failure))
                continue
            for labels, value in vector.samples():
                yield Labels({**labels, **rule.labels}), float(value)

    def _fail(self, rule: str, message: str) -> None:
        self.failures.append(f"rule {rule} could not judge this: {message}")


def _without_fields(files: Sequence[RuleFile]) -> list[RuleFile]:
    """They are asked for once, at the end."""
    return [
        replace(
            file,
            groups=tuple(
                replace(group, rules=tuple(r for r in group.rules if r.name != FIELD_METRIC))
                for group in file.groups
            ),
        )
        for file in files
    ]
