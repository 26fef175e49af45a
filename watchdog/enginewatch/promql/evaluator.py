"""Evaluates PromQL over columns: at an instant, or step by step over a range.

Prometheus 3 semantics for float samples: windows are open to the left, and
functions drop the metric name at once. `Context.value` leads back here for
operands; all label work is memoised on layouts, so evaluating a rule again
while the set of series stays the same is array arithmetic only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np

from enginewatch.model import METRIC_NAME, Labels, Millis
from enginewatch.promql.aggregate import evaluate_aggregate
from enginewatch.promql.ast import (
    Aggregate,
    Binary,
    Call,
    Expr,
    MatrixSelector,
    NumberLiteral,
    Paren,
    StringLiteral,
    Subquery,
    Unary,
    ValueType,
    VectorSelector,
)
from enginewatch.promql.binary import evaluate_binary
from enginewatch.promql.check import may_give
from enginewatch.promql.collect import to_matrix, to_series
from enginewatch.promql.context import Context, Query
from enginewatch.promql.errors import EvaluationError
from enginewatch.promql.functions import FUNCTIONS
from enginewatch.promql.invariant import fixed_parts
from enginewatch.promql.layouts import relabel, relabelling
from enginewatch.promql.values import (
    UNLIMITED,
    Limits,
    Matrix,
    RangeResult,
    Scalar,
    String,
    Value,
    Vector,
    no_series,
    single,
)
from enginewatch.store.base import BoolArray, Layout, Storage

_MOST_PROMISES: Final = 4096
"""Expressions of rules of which it is remembered whether anything can come of them."""


class Evaluator:
    """PromQL over a storage.

    `lookback` is how old an instant's sample may be; `default_step` the
    resolution of subqueries that give none; both in ms. `left_closed` takes
    windows and extrapolation as in Prometheus 2.x, for comparison with such a
    server only. `delayed_name_removal` is the feature flag of that name in
    Prometheus 3.
    """

    def __init__(
        self,
        storage: Storage,
        *,
        lookback: Millis = 300_000,
        default_step: Millis = 60_000,
        left_closed: bool = False,
        delayed_name_removal: bool = False,
    ):
        self._storage = storage
        self._lookback = lookback
        self._default_step = default_step
        self._left_closed = left_closed
        self._delayed_name_removal = delayed_name_removal
        self._promising: dict[int, tuple[Expr, int, bool]] = {}

    def instant(self, expr: Expr, at: Millis, *, limits: Limits = UNLIMITED) -> Value:
        """The value at a time. Raises EvaluationError where there is none."""
        query = self._query(expr, at, at, 0, limits)
        value = _at(query, expr)
        return replace(value, annotations=tuple(query.remarks)) if query.remarks else value

    def result(self, expr: Expr, at: Millis) -> Value:
        """As `instant`, for rules: without remarks, and without the work where nothing can come
        of it, as of the rules for engines that are not there, or of the second half of a
        condition whose first is false of all. An error there is not found."""
        if expr.type is ValueType.VECTOR and not self._promises(expr):
            return no_series()
        return _at(self._query(expr, at, at, 0, UNLIMITED, lazy=True), expr)

    def _promises(self, expr: Expr) -> bool:
        """`may_give`, found out again only when metric names came or went."""
        changed = self._storage.names_changed
        known = self._promising.get(id(expr))
        if known is not None and known[0] is expr and known[1] == changed:
            return known[2]
        promise = may_give(expr, self._storage.exists)
        if len(self._promising) >= _MOST_PROMISES:
            self._promising.clear()
        self._promising[id(expr)] = expr, changed, promise
        return promise

    def range(
        self, expr: Expr, start: Millis, end: Millis, step: Millis, *, limits: Limits = UNLIMITED
    ) -> RangeResult:
        """The values at `start`, `start + step` and so on up to `end`, as series.

        A scalar is one series without labels. Raises EvaluationError, also for
        expressions that are range vectors or strings.
        """
        if expr.type not in (ValueType.SCALAR, ValueType.VECTOR):
            raise EvaluationError(
                f"invalid expression type {expr.type} for a range query,"
                " must be scalar or instant vector"
            )
        if step <= 0 or end < start:
            raise EvaluationError("a range query needs a step above 0 and an end after its start")
        query = self._query(expr, start, end, step, limits)
        with np.errstate(all="ignore"):
            steps = [
                (at, _as_vector(_final(_step(query, expr, at))))
                for at in range(start, end + 1, step)
            ]
            matrix = to_matrix(steps, start, end)
        query.charge(0, matrix.layout)
        return RangeResult(to_series(matrix), tuple(query.remarks))

    def _query(
        self,
        expr: Expr,
        start: Millis,
        end: Millis,
        step: Millis,
        limits: Limits,
        *,
        lazy: bool = False,
    ) -> Query:
        repeats = step > 0 or expr.repeats
        return Query(
            storage=self._storage,
            start=start,
            end=end,
            step=step,
            lookback=self._lookback,
            default_step=self._default_step,
            left_closed=self._left_closed,
            delayed_name_removal=self._delayed_name_removal,
            limits=limits,
            evaluate=_evaluate,
            lazy=lazy,
            fixed=fixed_parts(expr) if repeats else frozenset(),
        )


def _at(query: Query, expr: Expr) -> Value:
    with np.errstate(all="ignore"):
        return _final(Context(query, query.start).value(expr))


def _step(query: Query, expr: Expr, at: Millis) -> Value:
    query.check_time()
    query.charge(1)
    return Context(query, at).value(expr)


def _evaluate(expr: Expr, context: Context) -> Value:
    query = context.query
    if id(expr) not in query.fixed:
        return _HANDLERS[type(expr)](expr, context)
    known = query.known.get(id(expr))
    if known is None:
        known = query.known[id(expr)] = _HANDLERS[type(expr)](expr, context)
    return known


def _number(expr: NumberLiteral, _context: Context) -> Scalar:
    return Scalar(expr.value)


def _string(expr: StringLiteral, _context: Context) -> String:
    return String(expr.value)


def _paren(expr: Paren, context: Context) -> Value:
    return context.value(expr.expr)


def _selector(expr: VectorSelector, context: Context) -> Vector:
    query = context.query
    # Storage reads (at - lookback, at]; 2.x means [at - lookback, at].
    found = query.storage.instant(
        expr.matchers,
        context.anchored(expr.at, expr.offset),
        query.lookback + query.left_closed,
    )
    query.charge(len(found.layout), found.layout)
    return Vector(found.layout, found.values, found.present, times=found.times)


def _window(expr: MatrixSelector, context: Context) -> Matrix:
    query, selector = context.query, expr.selector
    end = context.anchored(selector.at, selector.offset)
    start = end - expr.range
    found = query.storage.window(selector.matchers, start - query.left_closed, end)
    query.charge(int(found.counts.sum()), found.layout)
    return Matrix(found.layout, found.values, found.times, found.counts, start, end)


def _subquery(expr: Subquery, context: Context) -> Matrix:
    """The operand at the multiples of the step within the range, wherever the range begins."""
    query = context.query
    end = context.anchored(expr.at, expr.offset)
    start = end - expr.range
    step = query.default_step if expr.step is None else expr.step
    first = (start // step + 1) * step
    if query.left_closed and start % step == 0:
        first = start
    # Consecutive evaluations overlap, so the vectors are kept until they fall out of the range.
    before = query.steps_of.get(id(expr), {})
    steps = {}
    for at in range(first, end + 1, step):
        vector = before.get(at)
        if vector is None:
            value = _step(query, expr.expr, at)
            if not isinstance(value, Vector):
                raise EvaluationError(f"a subquery needs an instant vector, not a {value.type}")
            vector = value
            query.charge(len(vector), vector.layout)
        steps[at] = vector
    query.steps_of[id(expr)] = steps
    return to_matrix(tuple(steps.items()), start, end)


def _unary(expr: Unary, context: Context) -> Value:
    value = context.value(expr.expr)
    if isinstance(value, Scalar):
        return Scalar(-value.value if expr.op == "-" else value.value)
    if not isinstance(value, Vector):
        raise EvaluationError(f'unary "{expr.op}" needs a scalar or a vector, not a {value.type}')
    if expr.op == "+":
        return replace(value, times=None)
    return context.nameless(value.layout, -value.values, value.present)


def _call(expr: Call, context: Context) -> Value:
    return FUNCTIONS[expr.func](expr, context)


_HANDLERS: Final[dict[type[Expr], Callable[[Any, Context], Value]]] = {
    Aggregate: evaluate_aggregate,
    Binary: evaluate_binary,
    Call: _call,
    MatrixSelector: _window,
    NumberLiteral: _number,
    Paren: _paren,
    StringLiteral: _string,
    Subquery: _subquery,
    Unary: _unary,
    VectorSelector: _selector,
}


def _as_vector(value: Value) -> Vector:
    if isinstance(value, Scalar):
        return single(value.value)
    if isinstance(value, Vector):
        return value
    raise EvaluationError(f"a range query needs a scalar or a vector, not a {value.type}")


def _final(value: Value) -> Value:
    """The value without the names that were marked to be dropped in the end."""
    if isinstance(value, Vector) and value.nameless is not None:
        named = relabelling(_kept_names(value.layout, value.nameless))
        return relabel(replace(value, nameless=None), named)
    if isinstance(value, Matrix) and value.nameless is not None:
        return replace(
            value, layout=Layout([*_kept_names(value.layout, value.nameless)]), nameless=None
        )
    return value


def _kept_names(layout: Layout, nameless: BoolArray) -> Iterator[Labels]:
    for labels, drops in zip(layout.labels, nameless.tolist(), strict=True):
        yield labels.without(METRIC_NAME) if drops else labels
