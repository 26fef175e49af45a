"""From an alert's expression, through recording rules, to the raw series that it stands on.

The convention that rule authors follow:

- a selector asks for its series by name; `or` asks for any of its sides; every
  other operator, function and aggregation asks for all its operands;
- what stands right of `unless` or inside `absent()` and `absent_over_time()` is
  not asked for, nor are numbers, `vector(0)` and `time()`;
- matchers on a target's own labels (`job`, `deployment`, `runtime`, …) say which
  targets an alert is about; all other matchers are ignored: `{reason="x"}` counts
  by name only;
- a recorded series asks for what its rule asks for. Of rules that set the label
  `runtime` only those of the target's runtime count; where there are none for it,
  the recorded name itself is what the target can't offer;
- so a signal that exists only sometimes (under load, with a feature switched on)
  is made optional in PromQL itself, by a side that is always there:
  `rate(vllm:spec_decode_num_drafts_total[1m]) or 0 * up`.

Series whose absence is itself the answer are never asked for: `ALERTS` and
`enginewatch_hazard_blind`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from enginewatch.alerting.needs import (
    NOT_ASKED,
    NOTHING,
    Need,
    Series,
    all_of,
    either_of,
    series_of,
    where,
)
from enginewatch.alerting.rules import AlertingRule, Group, RecordingRule, Rule, RuleFile
from enginewatch.model import METRIC_NAME, Matcher, Millis
from enginewatch.promql.ast import Binary, Call, Expr, VectorSelector
from enginewatch.promql.check import LOOKBACK, names, referenced
from enginewatch.promql.errors import PromQLError
from enginewatch.promql.parser import parse_expr

HAZARD_BLIND: Final = "enginewatch_hazard_blind"

TOLD_BY_ABSENCE: Final = frozenset({"ALERTS", "ALERTS_FOR_STATE", HAZARD_BLIND})

SCRAPE_SERIES: Final = frozenset(
    {
        "up",
        "scrape_duration_seconds",
        "scrape_samples_scraped",
        "scrape_samples_post_metric_relabeling",
        "scrape_series_added",
    }
)
"""What the scraper itself says of every target, whether the target answers or not."""

RUNTIME: Final = "runtime"

_ABSENCE: Final = frozenset({"absent", "absent_over_time"})


class Recorder(NamedTuple):
    """A recording rule and the group that evaluates it."""

    rule: RecordingRule
    group: Group


class Tracer:
    """The rules of a configuration, indexed by what they record."""

    def __init__(self, files: Iterable[RuleFile]):
        self._recorders: dict[str, list[Recorder]] = defaultdict(list)
        self._groups: dict[Rule, Group] = {}
        for group in (group for file in files for group in file.groups):
            for rule in group.rules:
                self._groups[rule] = group
                if isinstance(rule, RecordingRule):
                    self._recorders[rule.name].append(Recorder(rule, group))
        self._needs: dict[tuple[Rule, str], Need] = {}
        self.runtimes: Final[tuple[str, ...]] = tuple(
            sorted({r for rule in self._groups if (r := _runtime(rule))})
        )

    @property
    def alerts(self) -> tuple[AlertingRule, ...]:
        return tuple(rule for rule in self._groups if isinstance(rule, AlertingRule))

    def group(self, rule: Rule) -> Group:
        return self._groups[rule]

    def recorders(self, name: str) -> tuple[Recorder, ...]:
        return tuple(self._recorders.get(name, ()))

    def need(self, rule: Rule, runtime: str) -> Need:
        """What `rule` needs from a target of this runtime (`""` when it has none)."""
        key = (rule, runtime)
        if key not in self._needs:
            self._needs[key] = self._need_of(rule, runtime, frozenset())
        return self._needs[key]

    def raw_names(self, rule: Rule) -> frozenset[str]:
        """All raw series that `rule` may stand on, whatever the target's runtime."""
        found = (s for r in ("", *self.runtimes) for s in series_of(self.need(rule, r)))
        return frozenset(series.name for series in found if series.offered)

    def all_raw_names(self) -> frozenset[str]:
        """All raw series that any rule may stand on."""
        return frozenset(name for rule in self._groups for name in self.raw_names(rule))

    def engine_names(self, runtime: str) -> frozenset[str]:
        """All raw series that the engine rules of `runtime` read."""
        return frozenset(
            series.name
            for rule in self._groups
            if _runtime(rule) == runtime
            for series in series_of(self.need(rule, runtime))
            if series.offered and series.name not in SCRAPE_SERIES
        )

    def feeding(self, rule: Rule) -> tuple[Recorder, ...]:
        """Every recording rule that `rule` reads, directly or through others, for any runtime."""
        found: dict[RecordingRule, Recorder] = {}
        left: list[Rule] = [rule]
        while left:
            for name in _recorded(left.pop().expr):
                for recorder in self.recorders(name):
                    if recorder.rule not in found:
                        found[recorder.rule] = recorder
                        left.append(recorder.rule)
        return tuple(found.values())

    def is_about_engines(self, rule: Rule) -> bool:
        """Whether `rule` judges a series that some engine's rules record. One that only takes such
        a series as an excuse (right of `unless`) says nothing of engines that have it."""
        judged: set[str] = set()
        left = list(_judged(rule.expr))
        while left:
            name = left.pop()
            if name not in judged:
                judged.add(name)
                left += (n for r in self.recorders(name) for n in _judged(r.rule.expr))
        return any(_runtime(r.rule) for name in judged for r in self.recorders(name))

    def _need_of(self, rule: Rule, runtime: str, above: frozenset[Rule]) -> Need:
        # A rule may read its own earlier output, which asks for nothing new.
        return NOTHING if rule in above else self._need(rule.expr, runtime, above | {rule})

    def _need(self, expr: Expr, runtime: str, above: frozenset[Rule]) -> Need:
        match expr:
            case VectorSelector():
                return self._selected(expr, runtime, above)
            case Call(func=func) if func in _ABSENCE:
                return NOTHING
            case Binary(op="unless", left=left):
                return self._need(left, runtime, above)
            case Binary(op="or", left=left, right=right):
                return either_of(self._need(side, runtime, above) for side in (left, right))
        return all_of(self._need(child, runtime, above) for child in expr.children())

    def _selected(self, selector: VectorSelector, runtime: str, above: frozenset[Rule]) -> Need:
        wanted = names(selector)
        if wanted is None or wanted & TOLD_BY_ABSENCE:
            return NOTHING
        others = [m for m in selector.matchers if m.name != METRIC_NAME]
        if not all(m.matches(runtime) for m in others if m.name == RUNTIME):
            return NOT_ASKED
        need = either_of(self._named(name, others, runtime, above) for name in sorted(wanted))
        return where((m for m in others if m.name != RUNTIME), need)

    def _named(
        self, name: str, matchers: list[Matcher], runtime: str, above: frozenset[Rule]
    ) -> Need:
        recorders = self._recorders.get(name)
        if not recorders:
            return Series(name)
        fitting = [r.rule for r in recorders if _fits(r.rule.labels, matchers, runtime)]
        if not fitting:
            return Series(name, offered=False)
        return either_of(self._need_of(rule, runtime, above) for rule in fitting)


def _runtime(rule: Rule) -> str:
    return rule.labels.get(RUNTIME, "") if isinstance(rule, RecordingRule) else ""


def _fits(labels: Mapping[str, str], matchers: Iterable[Matcher], runtime: str) -> bool:
    """Whether a rule that sets these labels can make what the matchers select, for `runtime`."""
    if labels.get(RUNTIME, "") not in ("", runtime):
        return False
    return all(m.matches(labels[m.name]) for m in matchers if m.name in labels)


def _recorded(expr: Expr) -> Iterator[str]:
    for node in expr.walk():
        if isinstance(node, VectorSelector):
            yield from sorted(names(node) or ())


def _judged(expr: Expr) -> Iterator[str]:
    """The names of all that an expression reads, but for what stands right of `unless`."""
    match expr:
        case VectorSelector():
            yield from sorted(names(expr) or ())
        case Binary(op="unless", left=left):
            yield from _judged(left)
        case _:
            for child in expr.children():
                yield from _judged(child)


def kept_series(files: Iterable[RuleFile], lookback: Millis = LOOKBACK) -> dict[str | None, Millis]:
    """Which series the rules read, and for how long each must be kept; None stands for all.

    Templates' queries are read too. Nothing is kept for less than the lookback:
    whether an input is there is judged over that time (`alerting.inputs`).
    """
    kept: dict[str | None, Millis] = dict.fromkeys(SCRAPE_SERIES, lookback)
    for expr in _expressions(files):
        for name, reach in referenced(expr, lookback).items():
            kept[name] = max(reach, lookback, kept.get(name, 0))
    return kept


def _expressions(files: Iterable[RuleFile]) -> Iterator[Expr]:
    for rule in (rule for file in files for group in file.groups for rule in group.rules):
        yield rule.expr
        if isinstance(rule, AlertingRule):
            for template in (*rule.labels.values(), *rule.annotations.values()):
                yield from _parsed(template.queries())


def _parsed(texts: Iterable[str]) -> Iterator[Expr]:
    """The expressions among the texts; one that a template puts together may be none as yet."""
    for text in texts:
        try:
            yield parse_expr(text)
        except PromQLError:
            continue
