"""One rule at one time: evaluated, and what it gives written to the store.

Labels and refs of a rule's output are computed once for each layout of its
result, so that a rule whose series did not change costs array arithmetic only.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple, Protocol

import numpy as np

from enginewatch.alerting.errors import RuleError
from enginewatch.alerting.events import AlertChange
from enginewatch.alerting.inputs import InputView
from enginewatch.alerting.rules import AlertingRule, RecordingRule
from enginewatch.alerting.state import (
    NO_SOURCES,
    Alerts,
    Inputs,
    Seen,
    Timing,
    Tracked,
    always_known,
    step,
)
from enginewatch.alerting.template import Template
from enginewatch.model import EMPTY_LABELS, METRIC_NAME, AlertState, Labels, Millis
from enginewatch.promql.ast import Expr
from enginewatch.promql.parser import parse_expr
from enginewatch.promql.values import Scalar, Value, Vector, single
from enginewatch.store.base import BoolArray, FloatArray, IntArray, Layout

ALERTNAME: Final = "alertname"
ALERTSTATE: Final = "alertstate"

_NO_REFS: Final[IntArray] = np.empty(0, dtype=np.int64)
_NO_VALUES: Final[FloatArray] = np.empty(0)
_UNWANTED: Final = -1


class Evaluates(Protocol):
    def result(self, expr: Expr, at: Millis) -> Value: ...


class Writes(Protocol):
    """A source of the store (`store.source.Source`): series not in a round end with it."""

    @property
    def epoch(self) -> int: ...
    def resolve(self, labels: Labels) -> int | None: ...
    def append(self, at: Millis, refs: IntArray, values: FloatArray) -> object: ...
    def remove(self, at: Millis | None = None) -> None: ...


class Appends(Protocol):
    def source(self, key: Hashable) -> Writes: ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all rules of a manager work with."""

    evaluator: Evaluates
    external_labels: Labels = EMPTY_LABELS
    external_url: str = ""


class Moment(NamedTuple):
    """One evaluation. `now` is its time, `at` that time less the group's query offset.

    `view` is None where absence means false, as in Prometheus; `settled` tells
    that nothing but the alert's own inputs stands against that.
    """

    now: Millis
    at: Millis
    view: InputView | None = None
    settled: bool = True


def vector_of(value: Value) -> Vector:
    """A rule's result as a vector. Raises RuleError for what is neither vector nor scalar."""
    if isinstance(value, Vector):
        return value
    if isinstance(value, Scalar):
        return single(value.value)
    raise RuleError(f"the expression gives a {value.type.value}, not an instant vector")


class _Outputs(NamedTuple):
    """Where the rows of one layout go: their refs, and their labels' numbers if some are equal.

    Refs are those of `source` in this `epoch` of it. The layout of a constant is
    shared by all stores of the process, so a source of the same key may be another.
    """

    source: Writes
    epoch: int
    refs: IntArray
    wanted: BoolArray | None
    number: IntArray | None


@dataclass(slots=True, eq=False)
class RecordingRunner:
    """A recording rule and its series in the store. `key` is that of the source."""

    rule: RecordingRule
    key: Hashable
    source: Writes
    limit: int = 0

    def evaluate(self, surroundings: Surroundings, moment: Moment) -> int:
        """Evaluates and writes; gives the number of samples written. Raises EnginewatchError."""
        vector = vector_of(surroundings.evaluator.result(self.rule.expr, moment.at))
        rows = np.flatnonzero(vector.present)
        if not len(rows):
            self.source.append(moment.at, _NO_REFS, _NO_VALUES)
            return 0
        _check_limit(len(rows), self.limit, "series")
        outputs = self._outputs(vector.layout)
        if outputs.number is not None:
            _check_distinct(outputs.number[rows], vector.layout, rows)
        if outputs.wanted is not None:
            rows = rows[outputs.wanted[rows]]
        self.source.append(moment.at, outputs.refs[rows], vector.values[rows])
        return len(rows)

    def fail(self, at: Millis) -> None:
        """The rule has nothing to say: its series end."""
        self.source.append(at, _NO_REFS, _NO_VALUES)

    def _outputs(self, layout: Layout) -> _Outputs:
        # Keyed by what the labels and refs follow from, so that a reload finds them again.
        key = ("recorded", self.key, self.rule.name, tuple(self.rule.labels.items()))
        kept: dict[str, _Outputs] = layout.derive(key, dict)
        outputs = kept.get("outputs")
        if outputs is None or (outputs.source, outputs.epoch) != (self.source, self.source.epoch):
            outputs = kept["outputs"] = self._resolve(layout)
        return outputs

    def _resolve(self, layout: Layout) -> _Outputs:
        epoch = self.source.epoch
        number_of: dict[Labels, int] = {}
        changes = {METRIC_NAME: self.rule.name, **self.rule.labels}
        labels = [each.with_(**changes) for each in layout.labels]
        number = [number_of.setdefault(each, len(number_of)) for each in labels]
        found = [self.source.resolve(each) for each in number_of]
        refs = np.array([_UNWANTED if ref is None else ref for ref in found], dtype=np.int64)
        numbers = np.array(number, dtype=np.int64)
        refs = refs[numbers]
        wanted = refs != _UNWANTED
        return _Outputs(
            self.source,
            epoch,
            refs,
            wanted=None if wanted.all() else wanted,
            number=None if len(number_of) == len(labels) else numbers,
        )


def _check_limit(found: int, limit: int, what: str) -> None:
    if limit and found > limit:
        raise RuleError(f"the result has {found} {what}, more than the group's limit of {limit}")


def _check_distinct(numbers: IntArray, layout: Layout, rows: IntArray) -> None:
    """Raises RuleError when two present rows get the same labels."""
    values, counts = np.unique(numbers, return_counts=True)
    if (counts > 1).any():
        twice = rows[numbers == values[counts > 1][0]].tolist()
        both = " and ".join(repr(layout.labels[row]) for row in twice[:2])
        raise RuleError(f"two series get the same labels: {both}")


@dataclass(eq=False)
class AlertingRunner:
    """An alerting rule, its alerts, and their `ALERTS` series in the store."""

    rule: AlertingRule
    key: Hashable
    source: Writes
    limit: int = 0
    alerts: Alerts = field(default_factory=dict)
    # What this rule itself wrote last; an alert taken over was annotated by an older rule.
    _told: Mapping[Labels, Mapping[str, str]] = field(default_factory=dict)
    _refs: dict[Labels, int | None] = field(default_factory=dict)
    _epoch: int = -1

    def advance(self, surroundings: Surroundings, moment: Moment) -> tuple[AlertChange, ...]:
        """Evaluates and moves the alerts on; gives what changed.

        Raises EnginewatchError, and then the alerts are as they were before.
        """
        vector = vector_of(surroundings.evaluator.result(self.rule.expr, moment.at))
        active = self._active(vector, surroundings, moment)
        timing = Timing(self.rule.for_, self.rule.keep_firing_for)
        alerts, changes = step(self.alerts, moment.now, active, timing, self._judge(moment))
        _check_limit(sum(map(_is_active, alerts.values())), self.limit, "alerts")
        self.alerts = alerts
        return changes

    def fail(self, at: Millis) -> None:
        """The rule can't be evaluated: its series end, and its alerts stay as they are."""
        self.source.append(at, _NO_REFS, _NO_VALUES)

    def _judge(self, moment: Moment) -> Callable[[Tracked], Inputs]:
        view = moment.view
        if view is None:
            return always_known
        if not moment.settled:
            return lambda _: Inputs.UNKNOWN
        return lambda tracked: view.judge(self.rule, tracked)

    def _active(
        self, vector: Vector, surroundings: Surroundings, moment: Moment
    ) -> Mapping[Labels, Seen]:
        active: dict[Labels, Seen] = {}
        query = _Query(surroundings.evaluator, moment.at)
        for found, value in vector.samples():
            nameless = found.without(METRIC_NAME) if METRIC_NAME in found else found

            def expand(template: Template, of: Labels = found, number: float = value) -> str:
                if template.is_constant:
                    return template.text
                return template.expand(
                    of, number, surroundings.external_labels, surroundings.external_url, query
                )

            own = {name: expand(template) for name, template in self.rule.labels.items()}
            labels = Labels({**nameless, **own, ALERTNAME: self.rule.name})
            if labels in active:
                raise RuleError(f"two series give the same alert: {labels!r}")
            told = self._told.get(labels, {})
            notes = {
                name: told[name] if name in told and name in self._lasting else expand(template)
                for name, template in self.rule.annotations.items()
            }
            sources = NO_SOURCES
            if moment.view is not None:
                before = self.alerts.get(labels)
                noted = before.sources if before else NO_SOURCES
                sources = moment.view.sources(self.rule, nameless, noted)
            active[labels] = Seen(value, notes, sources)
        self._told = {labels: seen.annotations for labels, seen in active.items()}
        return active

    @cached_property
    def _lasting(self) -> frozenset[str]:
        """The annotations that say the same for as long as an alert lives: its labels are fixed."""
        return frozenset(
            name
            for name, template in self.rule.annotations.items()
            if not template.uses_value() and "query" not in template.text
        )

    def write(self, at: Millis) -> int:
        """Writes `ALERTS` and `ALERTS_FOR_STATE` of what is pending or firing; gives how many."""
        if self._epoch != self.source.epoch:
            self._refs, self._epoch = {}, self.source.epoch
        series = list(self._series())
        # Rebuilt each time: refs of alerts that are over would pile up.
        self._refs = {labels: self._ref(labels) for labels, _ in series}
        samples = [(ref, v) for labels, v in series if (ref := self._refs[labels]) is not None]
        refs = np.array([ref for ref, _ in samples], dtype=np.int64)
        self.source.append(at, refs, np.array([v for _, v in samples], dtype=np.float64))
        return len(samples)

    def _series(self) -> Iterator[tuple[Labels, float]]:
        for labels, tracked in self.alerts.items():
            if _is_active(tracked):
                state = str(tracked.alert.state)
                yield Labels({**labels, METRIC_NAME: "ALERTS", ALERTSTATE: state}), 1.0
                active_at = float(tracked.alert.active_at // 1000)
                yield Labels({**labels, METRIC_NAME: "ALERTS_FOR_STATE"}), active_at

    def _ref(self, labels: Labels) -> int | None:
        return self._refs[labels] if labels in self._refs else self.source.resolve(labels)


Runner = RecordingRunner | AlertingRunner


def _is_active(tracked: Tracked) -> bool:
    return tracked.alert.state is not AlertState.RESOLVED


class _Query:
    """What a template's `query` function asks: PromQL at the time of the evaluation."""

    def __init__(self, evaluator: Evaluates, at: Millis):
        self._evaluator = evaluator
        self._at = at

    def __call__(self, text: str) -> Iterable[tuple[Labels, float]]:
        return list(vector_of(self._evaluator.result(parse_expr(text), self._at)).samples())
