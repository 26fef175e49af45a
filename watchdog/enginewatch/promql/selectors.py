"""Parses selectors and what may follow an expression: ranges, subqueries, offsets and `@`."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NoReturn, TypedDict

from enginewatch.model import METRIC_NAME, Matcher, MatchOp, Millis
from enginewatch.promql.ast import (
    AtAnchor,
    Expr,
    MatrixSelector,
    Subquery,
    VectorSelector,
)
from enginewatch.promql.cursor import Cursor
from enginewatch.promql.lexer import Kind, Token
from enginewatch.promql.literals import (
    millis_of,
    parse_number,
    parse_span,
    span_of_seconds,
    unquote,
)
from enginewatch.promql.semantics import check_selector, check_subquery

_MATCH_OPS: Final = {op.value: op for op in MatchOp}
_ANCHORS: Final = {"start": AtAnchor.START, "end": AtAnchor.END}
_DURATION_WORDS: Final = frozenset({"step", "range", "min", "max", "min_of", "max_of"})
_EXTENDED: Final = frozenset({"anchored", "smoothed"})
_SPAN: Final = "a duration such as 5m"


def parse_selector(cursor: Cursor) -> VectorSelector:
    """`name`, `name{matchers}` or `{matchers}`; the cursor stands at the name or the brace."""
    start = cursor.token.start
    name = "" if cursor.at("{") else cursor.advance().text
    names = [Matcher(METRIC_NAME, MatchOp.EQUAL, name)] if name else []
    matchers: list[Matcher] = []
    if cursor.at("{"):
        opened = cursor.advance()
        while not cursor.at("}"):
            matcher, is_name = _matcher(cursor)
            (names if is_name else matchers).append(matcher)
            if not cursor.take(","):
                break
        _refuse_or(cursor)
        cursor.close("}", opened, '"," or "}"')
    node = VectorSelector(
        name=names[0].value if names else "",
        matchers=(*names, *matchers),
        pos=cursor.since(start),
    )
    check_selector(node, cursor.text, name_outside=bool(name))
    return node


def _matcher(cursor: Cursor) -> tuple[Matcher, bool]:
    """A matcher, and whether it is a metric name standing in quotes by itself."""
    label = cursor.token
    if label.kind not in (Kind.WORD, Kind.STRING):
        cursor.unexpected('a label name or "}"')
    cursor.advance()
    name = label.text if label.kind is Kind.WORD else string_value(cursor, label)
    if not name:
        cursor.fail("a name must not be empty", label)
    if label.kind is Kind.STRING and (cursor.at(",") or cursor.at("}")):
        return Matcher(METRIC_NAME, MatchOp.EQUAL, name), True
    op = _MATCH_OPS.get(cursor.token.text)
    if op is None:
        cursor.unexpected("one of = != =~ !~")
    cursor.advance()
    value = cursor.token
    if value.kind is not Kind.STRING:
        cursor.unexpected("a quoted string")
    cursor.advance()
    try:
        return Matcher(name, op, string_value(cursor, value)), False
    except ValueError as failure:
        cursor.fail(str(failure), value)


def _refuse_or(cursor: Cursor) -> None:
    if cursor.word() == "or":
        cursor.unexpected('"," or "}"', hint='"or" between matchers is VictoriaMetrics\' own')


def string_value(cursor: Cursor, token: Token) -> str:
    try:
        return unquote(token.text)
    except ValueError as failure:
        cursor.fail(str(failure), token)


def number_value(cursor: Cursor, token: Token) -> float:
    """The value of a number, or of a duration in seconds."""
    try:
        if token.kind is Kind.DURATION:
            return parse_span(token.text) / 1000
        return parse_number(token.text)
    except ValueError as failure:
        cursor.fail(str(failure), token)


def parse_suffixes(cursor: Cursor, expr: Expr) -> Expr:
    """Everything in `[…]`, `offset` and `@` that follows `expr`."""
    offset_given = at_given = False
    while True:
        token = cursor.token
        word = cursor.word()
        if cursor.at("["):
            expr = _bracket(cursor, expr, moved=offset_given or at_given)
            offset_given = at_given = False
        elif word == "offset":
            if offset_given:
                cursor.fail("offset must not be given twice", token)
            cursor.advance()
            span = _span(cursor, signed=True)
            expr = _shifted(cursor, expr, token, offset=span)
            offset_given = True
        elif cursor.at("@"):
            if at_given:
                cursor.fail('"@" must not be given twice', token)
            cursor.advance()
            expr = _shifted(cursor, expr, token, at=_at(cursor))
            at_given = True
        elif word in _EXTENDED:
            cursor.fail(f'the modifier "{word}" is not supported: it is experimental', token)
        else:
            return expr


def _bracket(cursor: Cursor, expr: Expr, *, moved: bool) -> MatrixSelector | Subquery:
    opened = cursor.advance()
    span = _positive(cursor, "a range")
    if cursor.take(":"):
        step = None if cursor.at("]") else _positive(cursor, "a step")
        cursor.close("]", opened, '"]"')
        subquery = Subquery(expr=expr, range=span, step=step, pos=cursor.since(expr.pos.start))
        check_subquery(subquery, cursor.text)
        return subquery
    cursor.close("]", opened, '"]" or ":"')
    pos = cursor.since(opened.start)
    if not isinstance(expr, VectorSelector):
        cursor.fail(
            "a range belongs directly after a selector",
            pos,
            hint="of other expressions, take a subquery such as [5m:1m]",
        )
    if moved:
        cursor.fail('a range goes before offset and "@"', pos)
    return MatrixSelector(selector=expr, range=span, pos=cursor.since(expr.pos.start))


def _positive(cursor: Cursor, what: str) -> Millis:
    token = cursor.token
    span = _span(cursor, signed=False)
    if cursor.token.kind is Kind.MARK and cursor.token.text in "+-*/%^":
        _refuse_duration_expression(cursor)
    if span <= 0:
        cursor.fail(f"{what} must be at least 1ms", token)
    return span


def _span(cursor: Cursor, *, signed: bool) -> Millis:
    sign = 1
    if signed and (cursor.at("-") or cursor.at("+")):
        sign = -1 if cursor.advance().text == "-" else 1
    token = cursor.token
    if token.text in ("(", "-", "+") or cursor.word() in _DURATION_WORDS:
        _refuse_duration_expression(cursor)
    if token.kind not in (Kind.NUMBER, Kind.DURATION):
        cursor.unexpected(_SPAN)
    cursor.advance()
    try:
        if token.kind is Kind.DURATION:
            return sign * parse_span(token.text)
        return sign * span_of_seconds(parse_number(token.text))
    except ValueError as failure:
        cursor.fail(str(failure), token)


def _refuse_duration_expression(cursor: Cursor) -> NoReturn:
    cursor.fail(
        "arithmetic in a duration is not supported: it is experimental",
        cursor.token,
        hint="write the duration out, such as 5m",
    )


def _at(cursor: Cursor) -> Millis | AtAnchor:
    anchor = _ANCHORS.get(cursor.word())
    if anchor is not None:
        cursor.advance()
        opened = cursor.expect("(", '"("')
        cursor.close(")", opened, '")"')
        return anchor
    sign = -1 if cursor.at("-") else 1
    if cursor.at("-") or cursor.at("+"):
        cursor.advance()
    token = cursor.token
    if token.kind not in (Kind.NUMBER, Kind.DURATION):
        cursor.unexpected("a Unix time in seconds, start() or end()")
    cursor.advance()
    seconds = number_value(cursor, token)
    if not seconds < 2**63 / 1000:
        cursor.fail("the time is out of range", token)
    return sign * millis_of(seconds)


class _Change(TypedDict, total=False):
    offset: Millis
    at: Millis | AtAnchor | None


def _shifted(
    cursor: Cursor,
    expr: Expr,
    token: Token,
    *,
    offset: Millis | None = None,
    at: Millis | AtAnchor | None = None,
) -> Expr:
    """`expr` with an offset or a fixed time, which go to the selector inside a range."""
    if not isinstance(expr, VectorSelector | MatrixSelector | Subquery):
        cursor.fail(f'"{token.text}" belongs after a selector, a range or a subquery', token)
    pos = cursor.since(expr.pos.start)
    change: _Change = {"at": at} if offset is None else {"offset": offset}
    if isinstance(expr, MatrixSelector):
        return replace(expr, selector=replace(expr.selector, **change), pos=pos)
    return replace(expr, pos=pos, **change)
