"""A syntax tree back to text: one line, canonical, and read again as the same tree."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Final

from enginewatch.model import METRIC_NAME, Matcher, MatchOp, Millis, quote
from enginewatch.promql.ast import (
    Aggregate,
    AtAnchor,
    Binary,
    Call,
    Cardinality,
    Expr,
    MatrixSelector,
    NumberLiteral,
    Paren,
    StringLiteral,
    Subquery,
    Unary,
    VectorMatching,
    VectorSelector,
)
from enginewatch.promql.grammar import (
    LABEL_NAME,
    METRIC_IDENTIFIER,
    NEVER_LABELS,
    NEVER_METRICS,
    PRECEDENCE,
    UNARY_OPERAND,
)
from enginewatch.units import format_duration

_ATOM: Final = 99
_SIGNED: Final = PRECEDENCE["*"]
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


def format_expr(expr: Expr) -> str:
    """The canonical text. `parse_expr(format_expr(e)) == e` for every tree that the parser built.

    A tree that was put together by hand gets the parentheses its meaning needs.
    """
    return _WRITERS[type(expr)](expr)


def _binding(expr: Expr) -> int:
    """How tightly the outermost part of the text binds, on the scale of PRECEDENCE."""
    if isinstance(expr, Binary):
        return PRECEDENCE[expr.op]
    if isinstance(expr, Unary) or (isinstance(expr, NumberLiteral) and _number(expr)[0] == "-"):
        return _SIGNED
    return _ATOM


def _at_least(expr: Expr, floor: int) -> str:
    text = format_expr(expr)
    return text if _binding(expr) >= floor else f"({text})"


def _number(expr: NumberLiteral) -> str:
    value = expr.value
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Inf" if value > 0 else "-Inf"
    return repr(value).removesuffix(".0")


def _string(text: str) -> str:
    return _CONTROL.sub(lambda found: f"\\x{ord(found.group()):02x}", quote(text))


def _selector(expr: VectorSelector) -> str:
    name, matchers = expr.name, expr.matchers
    if name and matchers and matchers[0] == Matcher(METRIC_NAME, MatchOp.EQUAL, name):
        matchers = matchers[1:]
    inner = [_matcher(m) for m in matchers]
    if name and not (_stands_bare(name) and all(m.name != METRIC_NAME for m in matchers)):
        inner.insert(0, _string(name))
        name = ""
    braces = f"{{{', '.join(inner)}}}" if inner or not name else ""
    return f"{name}{braces}{_moves(expr.offset, expr.at)}"


def _stands_bare(name: str) -> bool:
    return bool(METRIC_IDENTIFIER.fullmatch(name)) and name.lower() not in NEVER_METRICS


def _matcher(matcher: Matcher) -> str:
    name = matcher.name if LABEL_NAME.fullmatch(matcher.name) else _string(matcher.name)
    return f"{name}{matcher.op}{_string(matcher.value)}"


def _moves(offset: Millis, at: Millis | AtAnchor | None) -> str:
    text = ""
    if isinstance(at, AtAnchor):
        text = f" @ {at.value}"
    elif at is not None:
        whole, rest = divmod(abs(at), 1000)
        text = f" @ {'-' if at < 0 else ''}{whole}{f'.{rest:03}' if rest else ''}"
    return text + (f" offset {format_duration(offset)}" if offset else "")


def _matrix(expr: MatrixSelector) -> str:
    moves = _moves(expr.selector.offset, expr.selector.at)
    return f"{_selector(expr.selector).removesuffix(moves)}[{format_duration(expr.range)}]{moves}"


def _subquery(expr: Subquery) -> str:
    step = "" if expr.step is None else format_duration(expr.step)
    inner = _at_least(expr.expr, _ATOM)
    return f"{inner}[{format_duration(expr.range)}:{step}]{_moves(expr.offset, expr.at)}"


def _unary(expr: Unary) -> str:
    inner = expr.expr
    if isinstance(inner, Unary):
        return expr.op + _unary(inner)
    # A sign folds into a number, so one that did not is kept from it by parentheses.
    floor = _ATOM + 1 if isinstance(inner, NumberLiteral) else UNARY_OPERAND
    return expr.op + _at_least(inner, floor)


def _binary(expr: Binary) -> str:
    precedence = PRECEDENCE[expr.op]
    rightward = expr.op == "^"
    left = _at_least(expr.left, precedence + rightward)
    right = _right_side(expr.right, precedence + (not rightward))
    words = [left, expr.op]
    if expr.return_bool:
        words.append("bool")
    if expr.matching is not None:
        words.extend(_matching(expr.matching))
    return " ".join([*words, right])


def _right_side(expr: Expr, floor: int) -> str:
    """A sign needs no parentheses after an operator: it cannot be taken for another one there."""
    signed = isinstance(expr, Unary | NumberLiteral)
    return format_expr(expr) if signed else _at_least(expr, floor)


def _matching(matching: VectorMatching) -> list[str]:
    grouped = {Cardinality.MANY_TO_ONE: "group_left", Cardinality.ONE_TO_MANY: "group_right"}
    group = grouped.get(matching.card)
    if not (matching.on or matching.labels or group):
        return []
    words = [f"{'on' if matching.on else 'ignoring'} {_labels(matching.labels)}"]
    if group:
        words.append(f"{group} {_labels(matching.include)}")
    return words


def _labels(names: Iterable[str]) -> str:
    bare = (
        name if LABEL_NAME.fullmatch(name) and name.lower() not in NEVER_LABELS else _string(name)
        for name in names
    )
    return f"({', '.join(bare)})"


def _aggregate(expr: Aggregate) -> str:
    grouping = ""
    if expr.grouping or expr.without:
        grouping = f" {'without' if expr.without else 'by'} {_labels(expr.grouping)} "
    return f"{expr.op}{grouping}({', '.join(map(format_expr, expr.children()))})"


def _call(expr: Call) -> str:
    return f"{expr.func}({', '.join(map(format_expr, expr.args))})"


_WRITERS: Final[dict[type[Expr], Callable[..., str]]] = {
    Aggregate: _aggregate,
    Binary: _binary,
    Call: _call,
    MatrixSelector: _matrix,
    NumberLiteral: _number,
    Paren: lambda expr: f"({format_expr(expr.expr)})",
    StringLiteral: lambda expr: _string(expr.value),
    Subquery: _subquery,
    Unary: _unary,
    VectorSelector: _selector,
}
