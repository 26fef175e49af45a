"""One query while it is evaluated: what it reads, which times it spans, what it may cost.

`Query` holds what is the same throughout, `Context` the instant at hand.
Functions and operators get a context and ask it for the values of their
operands; they know nothing else of the evaluator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from enginewatch.model import Millis
from enginewatch.promql.ast import NOWHERE, AtAnchor, Expr, Paren, Position
from enginewatch.promql.errors import EvaluationError
from enginewatch.promql.layouts import relabel, without_name
from enginewatch.promql.values import (
    NOTHING,
    Annotation,
    Level,
    Limits,
    Matrix,
    Scalar,
    String,
    Value,
    Vector,
)
from enginewatch.store.base import BoolArray, FloatArray, Layout, Storage

V = TypeVar("V", bound=Value)


@dataclass(slots=True, kw_only=True, eq=False)
class Query:
    """The facts of a query, its remarks, and what it need not compute twice.

    `start`, `end` and `step` are those of the outermost query; an instant query
    has `start == end` and `step == 0`. `lazy` leaves out what can't change the
    answer, unless by an error. `fixed` holds the identities of the expressions
    whose value is the same at all times.
    """

    storage: Storage
    start: Millis
    end: Millis
    step: Millis
    lookback: Millis
    default_step: Millis
    left_closed: bool
    delayed_name_removal: bool
    limits: Limits
    evaluate: Callable[[Expr, Context], Value]
    lazy: bool = False
    fixed: frozenset[int] = frozenset()
    known: dict[int, Value] = field(default_factory=dict)
    steps_of: dict[int, dict[Millis, Vector]] = field(default_factory=dict)
    remarks: dict[Annotation, None] = field(default_factory=dict)
    samples_read: int = 0

    def charge(self, samples: int, layout: Layout = NOTHING) -> None:
        """Count what was read. Raises EvaluationError past a limit."""
        limits = self.limits
        self.samples_read += samples
        if limits.samples is not None and self.samples_read > limits.samples:
            raise EvaluationError(
                f"the query reads more than {limits.samples} samples",
                hint="ask for fewer series or a shorter range",
            )
        if limits.series is not None and len(layout) > limits.series:
            raise EvaluationError(
                f"a selector of the query matches {len(layout)} series, more than {limits.series}",
                hint="add matchers",
            )

    def check_time(self) -> None:
        if self.limits.expired is not None and self.limits.expired():
            raise EvaluationError("the query ran out of time", hint="ask for less at once")

    def remark(self, level: Level, message: str, pos: Position = NOWHERE) -> None:
        self.remarks[Annotation(level, message, pos)] = None


class Context:
    """A query at one instant, `at`."""

    __slots__ = ("at", "query")

    def __init__(self, query: Query, at: Millis):
        self.query = query
        self.at = at

    def value(self, expr: Expr) -> Value:
        return self.query.evaluate(expr, self)

    def scalar(self, expr: Expr) -> float:
        return _typed(self.value(expr), Scalar).value

    def vector(self, expr: Expr) -> Vector:
        return _typed(self.value(expr), Vector)

    def matrix(self, expr: Expr) -> Matrix:
        return _typed(self.value(expr), Matrix)

    def string(self, expr: Expr) -> str:
        return _typed(self.value(expr), String).value

    def anchored(self, at: Millis | AtAnchor | None, offset: Millis) -> Millis:
        """The time a selector's `@` and offset mean now."""
        if at is None:
            at = self.at
        elif at is AtAnchor.START:
            at = self.query.start
        elif at is AtAnchor.END:
            at = self.query.end
        return at - offset

    def nameless(self, layout: Layout, values: FloatArray, present: BoolArray) -> Vector:
        """A vector whose metric names are dropped: at once, or marked to be dropped at the end."""
        if self.query.delayed_name_removal:
            return Vector(layout, values, present, nameless=np.ones(len(layout), dtype=np.bool_))
        return relabel(Vector(layout, values, present), without_name(layout))

    def warn(self, message: str, pos: Position = NOWHERE) -> None:
        self.query.remark(Level.WARNING, message, pos)

    def inform(self, message: str, pos: Position = NOWHERE) -> None:
        self.query.remark(Level.INFO, message, pos)


def _typed(value: Value, kind: type[V]) -> V:
    """The parser sees to the types; a tree put together by hand may have them wrong."""
    if not isinstance(value, kind):
        raise EvaluationError(f"a {kind.__name__.lower()} is wanted here, not a {value.type}")
    return value


def unwrapped(expr: Expr) -> Expr:
    """The expression inside any parentheses."""
    while isinstance(expr, Paren):
        expr = expr.expr
    return expr
