"""Evidence as series: samples with times, judged by the rules that judge a live engine.

Each timeline (one source's pages, one log's periodic lines, the facts of all
documents) gets a store of its own. At each of its times the shipped rules and
those of `rules/diagnose` are evaluated; the latter have a month's lookback,
because evidence after the fact comes in a handful of samples, minutes apart.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from enginewatch.alerting.events import ChangeKind
from enginewatch.alerting.manager import RuleManager
from enginewatch.alerting.rules import RuleFile, load_rule_files
from enginewatch.evidence.errors import EvidenceError
from enginewatch.evidence.fields import TYPES, Value
from enginewatch.evidence.incident import Finding
from enginewatch.evidence.pack import VerdictRule
from enginewatch.evidence.signatures import Confidence, Severity
from enginewatch.evidence.verdict import Evidence
from enginewatch.model import Alert, Labels, Matcher, MatchOp, Millis, Sample
from enginewatch.promql.evaluator import Evaluator
from enginewatch.rulepack import rule_files, rules_path
from enginewatch.store.head import Head

_MONTH: Final[Millis] = 30 * 86_400_000
_SHIPPED_INTERVAL: Final[Millis] = 5_000
MOST_TIMES: Final = 500
"""Times at which rules are evaluated; a longer series is thinned evenly."""

FIELD_METRIC: Final = "diagnose:field"
"""Series that rules/diagnose record: a field of an alert's verdict, labelled of, field and as."""


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
    return tuple(path for path in found if not path.name.endswith(".test.yml"))


class _Run(NamedTuple):
    head: Head
    shipped: RuleManager
    diagnose: RuleManager


def judge_timeline(
    timeline: Timeline, rules: Rules, verdicts: Mapping[str, VerdictRule]
) -> list[Finding]:
    """What the rules find along the timeline, each alert once."""
    if not timeline.rounds:
        return []
    rounds = sorted(timeline.rounds, key=lambda one: one.at)
    # A page's own times may begin at 0; a month of lookback must not reach before the epoch.
    shift = max(0, 2 * _MONTH - rounds[0].at)
    run = _start(rules)
    fired: dict[Labels, tuple[Alert, Millis]] = {}
    times = _chosen({one.at for one in rounds})
    place = 0
    for at in times:
        while place < len(rounds) and rounds[place].at <= at:
            _write(run.head, rounds[place], shift)
            place += 1
        for manager in (run.shipped, run.diagnose):
            for alert in _alerts(manager, at + shift):
                fired[alert.labels] = (alert, at)
    fields = _field_values(run.head, times[-1] + shift)
    return [_finding(alert, at, fields, timeline, verdicts) for alert, at in fired.values()]


def _start(rules: Rules) -> _Run:
    head = Head(keep=lambda _: 2 * _MONTH)
    shipped = RuleManager(rules.shipped, Evaluator(head), head, interval=_SHIPPED_INTERVAL)
    evaluator = Evaluator(head, lookback=_MONTH)
    return _Run(head, shipped, RuleManager(rules.diagnose, evaluator, head, interval=_MONTH))


def _chosen(times: set[Millis]) -> list[Millis]:
    ordered = sorted(times)
    stride = -(-len(ordered) // MOST_TIMES)
    kept = ordered[::stride]
    return kept if kept[-1] == ordered[-1] else [*kept, ordered[-1]]


def _write(head: Head, one: Round, shift: Millis) -> None:
    source = head.source(one.writer)
    refs, values = [], []
    for sample in one.samples:
        ref = source.resolve(sample.labels)
        if ref is not None:
            refs.append(ref)
            values.append(sample.value)
    source.append(
        one.at + shift, np.array(refs, dtype=np.int64), np.array(values, dtype=np.float64)
    )


def _alerts(manager: RuleManager, at: Millis) -> Iterator[Alert]:
    for group in manager.groups:
        result = manager.evaluate(group, at)
        if result.failures:
            failure = result.failures[0]
            raise EvidenceError(failure.message, where=f"{failure.rule.file}:{failure.rule.line}")
        for change in result.changes:
            if change.kind is ChangeKind.FIRING:
                yield change.alert


def _field_values(head: Head, at: Millis) -> list[tuple[Labels, float]]:
    matchers = [Matcher("__name__", MatchOp.EQUAL, FIELD_METRIC)]
    found = head.instant(matchers, at, _MONTH)
    return [
        (labels, float(value))
        for labels, value, there in zip(
            found.layout.labels, found.values.tolist(), found.present.tolist(), strict=True
        )
        if there
    ]


_OWN_LABELS: Final = ("__name__", "of", "field", "as", "derived")


def _finding(
    alert: Alert,
    at: Millis,
    fields: Sequence[tuple[Labels, float]],
    timeline: Timeline,
    verdicts: Mapping[str, VerdictRule],
) -> Finding:
    verdict = alert.labels.get("verdict", "")
    read: dict[str, Value] = dict(_from_labels(alert))
    derived: dict[str, Value] = {}
    for labels, value in fields:
        if labels.get("of") != alert.name or not _agree(labels, alert.labels):
            continue
        into = derived if labels.get("derived") == "yes" else read
        into.setdefault(labels["field"], _typed(value, labels.get("as", "float")))
    derived |= _from_annotations(alert)
    rule = verdicts[verdict]
    severity, confidence = _weight(alert, rule.severity)
    summary = alert.annotations.get("summary", rule.about)
    where = timeline.lines.get(alert.labels.get("line", "")) or timeline.evidence.get(at)
    return Finding(
        verdict=verdict,
        severity=severity,
        confidence=confidence,
        key=alert.name,
        summary=summary,
        advice=alert.annotations.get("advice", ""),
        fields=read,
        derived=derived,
        evidence=(where or Evidence(timeline.name, 0, summary),),
        explained_by=frozenset(alert.annotations.get("explained_by", "").split()),
        explains=frozenset(alert.annotations.get("explains", "").split()),
        rules_out=tuple(alert.annotations.get("rules_out", "").split()),
    )


def _from_labels(alert: Alert) -> Iterator[tuple[str, Value]]:
    """`fields: "gpu:int xid:int method=quant_method"` names the labels that are fields."""
    for word in alert.annotations.get("fields", "").split():
        name, _, rest = word.partition("=")
        name, _, kind = name.partition(":")
        label = rest or name
        text = alert.labels.get(label)
        if text is not None:
            try:
                yield name, TYPES[kind or "string"](text)
            except (KeyError, ValueError):
                yield name, text


_DERIVED: Final = "derived_"
_WORDS: Final[Mapping[str, Value]] = {"true": True, "false": False, "null": None}


def _from_annotations(alert: Alert) -> dict[str, Value]:
    """`derived_reason: ...` is the derived field `reason`."""
    return {
        name.removeprefix(_DERIVED): _WORDS.get(text, text)
        for name, text in alert.annotations.items()
        if name.startswith(_DERIVED)
    }


def _agree(labels: Labels, others: Mapping[str, str]) -> bool:
    return all(
        others.get(name, value) == value
        for name, value in labels.items()
        if name not in _OWN_LABELS
    )


def _typed(value: float, kind: str) -> Value:
    if kind == "bool":
        return value != 0
    if kind == "int":
        return round(value)
    short = float(f"{value:.10g}")
    return int(short) if kind == "number" and short.is_integer() else short


def _weight(alert: Alert, usual: Severity) -> tuple[Severity, Confidence]:
    """The daemon's rules speak of pages and tickets, those for diagnosis in verdicts' own words."""
    written = alert.labels.get("severity", "")
    severity = Severity(written) if written in set(Severity) else usual
    confidence = alert.labels.get("confidence", "definite")
    return severity, Confidence(confidence)
