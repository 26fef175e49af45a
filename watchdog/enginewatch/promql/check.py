"""What an expression reads: which selectors, which metric names, how far into the past.

The head keeps the series that some rule reads, and no longer than rules look back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from enginewatch.model import METRIC_NAME, MatchOp, Millis
from enginewatch.promql.ast import (
    Aggregate,
    AtAnchor,
    Binary,
    Call,
    Expr,
    MatrixSelector,
    NumberLiteral,
    Subquery,
    VectorSelector,
)
from enginewatch.promql.literals import MAX_DURATION
from enginewatch.promql.pattern import alternatives

LOOKBACK: Final[Millis] = 300_000
"""How old the newest sample of an instant selector may be: Prometheus' default, five minutes."""

FOREVER: Final[Millis] = MAX_DURATION
"""The reach of `@ <timestamp>`, which recedes as time goes on."""

_FROM_NOTHING: Final = ("absent", "absent_over_time", "scalar")
"""Functions that make something of an empty vector."""


class Read(NamedTuple):
    """A selector, and how far before the evaluation it reads: its range or the lookback, its
    offset, and the ranges and offsets of subqueries around it. Never negative."""

    selector: VectorSelector
    reach: Millis


def selectors(expr: Expr, lookback: Millis = LOOKBACK) -> Iterator[Read]:
    """Every selector in `expr`, in the order of the text."""
    yield from _reads(expr, 0, lookback)


def _reads(expr: Expr, around: Millis, lookback: Millis) -> Iterator[Read]:
    match expr:
        case VectorSelector():
            yield Read(expr, _reach(lookback, expr, around))
        case MatrixSelector(selector=selector, range=span):
            yield Read(selector, _reach(span, selector, around))
        case Subquery():
            yield from _reads(expr.expr, _reach(expr.range, expr, around), lookback)
        case _:
            for child in expr.children():
                yield from _reads(child, around, lookback)


def _reach(span: Millis, node: VectorSelector | Subquery, around: Millis) -> Millis:
    if isinstance(node.at, AtAnchor):
        # Start and end are those of the whole query, whatever subqueries stand around.
        around = 0
    elif node.at is not None:
        return FOREVER
    return max(0, min(FOREVER, around + span + node.offset))


def names(selector: VectorSelector) -> frozenset[str] | None:
    """The metric names the selector can match, or None where they cannot be told from its text.

    A pattern counts when it only lists names: `a|b`, `engine:(a|b)_total`.
    """
    candidates: frozenset[str] | None = None
    matchers = [m for m in selector.matchers if m.name == METRIC_NAME]
    for matcher in matchers:
        if matcher.op is MatchOp.EQUAL:
            candidates = frozenset({matcher.value})
        elif matcher.op is MatchOp.REGEX and candidates is None:
            candidates = alternatives(matcher.value)
    if candidates is None:
        return None
    return frozenset(name for name in candidates if all(m.matches(name) for m in matchers))


def referenced(expr: Expr, lookback: Millis = LOOKBACK) -> dict[str | None, Millis]:
    """How far back `expr` reads, by metric name; under None, what has no fixed name."""
    reach: dict[str | None, Millis] = {}
    for read in selectors(expr, lookback):
        for name in _keys(names(read.selector)):
            reach[name] = max(read.reach, reach.get(name, 0))
    return reach


def _keys(found: frozenset[str] | None) -> tuple[str | None, ...]:
    return (None,) if found is None else tuple(sorted(found))


def may_give(expr: Expr, exists: Callable[[str], bool]) -> bool:
    """False only where the result is an empty vector, or an empty range vector, for certain.

    `exists` tells whether there may be a series of that name.
    """

    def selects(selector: VectorSelector) -> bool:
        return any(map(exists, found)) if (found := _wanted(selector)) is not None else True

    return may_select(expr, selects)


def may_select(expr: Expr, selects: Callable[[VectorSelector], bool]) -> bool:
    """As `may_give`; `selects` tells whether there may be a series that a selector matches."""
    match expr:
        case VectorSelector():
            return selects(expr)
        case Binary(op="or"):
            return may_select(expr.left, selects) or may_select(expr.right, selects)
        case Binary(op="unless"):
            return may_select(expr.left, selects)
    if _makes_something(expr):
        return True
    # Of all else, nothing in one operand is nothing in the result.
    return all(may_select(child, selects) for child in expr.children())


def _wanted(selector: VectorSelector) -> Iterable[str] | None:
    """The names that a selector can match; quick where the name is written."""
    return (selector.name,) if selector.name else names(selector)


def _makes_something(expr: Expr) -> bool:
    """Whether an empty operand is no reason to expect nothing: a value comes of it, or an error."""
    match expr:
        case Call(func=func):
            return func in _FROM_NOTHING
        case Aggregate(param=NumberLiteral(value=value)):
            return not math.isfinite(value)  # topk(NaN, …) is an error whatever it picks from
    return False
