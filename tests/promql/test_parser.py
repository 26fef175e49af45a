"""Parsing: which tree a text becomes, and what is accepted at all."""

from __future__ import annotations

import math
import time

import pytest
from tests.support.expressions import CORPUS

from enginewatch.model import METRIC_NAME, Matcher, MatchOp, Millis
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
    Position,
    StringLiteral,
    Subquery,
    Unary,
    ValueType,
    VectorMatching,
    VectorSelector,
)
from enginewatch.promql.errors import PromQLError
from enginewatch.promql.grammar import SET_OPERATORS
from enginewatch.promql.parser import MAX_DEPTH, parse_expr

MINUTE = 60_000
MANY = Cardinality.MANY_TO_MANY


def num(value: float) -> NumberLiteral:
    return NumberLiteral(value=value)


def sel(
    name: str, *matchers: Matcher, offset: Millis = 0, at: Millis | AtAnchor | None = None
) -> VectorSelector:
    named = (eq(METRIC_NAME, name),) if name else ()
    return VectorSelector(name=name, matchers=(*named, *matchers), offset=offset, at=at)


def eq(label: str, value: str) -> Matcher:
    return Matcher(label, MatchOp.EQUAL, value)


def binary(
    op: str,
    left: Expr,
    right: Expr,
    *,
    matching: VectorMatching | None = None,
    return_bool: bool = False,
) -> Binary:
    if matching is None and left.type is right.type is ValueType.VECTOR:
        one = Cardinality.ONE_TO_ONE
        matching = VectorMatching(card=MANY if op in SET_OPERATORS else one)
    return Binary(op=op, left=left, right=right, matching=matching, return_bool=return_bool)


A, B, C = sel("a"), sel("b"), sel("c")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1.0),
        ("1.5", 1.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e3", 1000.0),
        ("1E-3", 0.001),
        ("2.5e+1", 25.0),
        ("0x1F", 31.0),
        ("0X_a_0", 160.0),
        ("0777", 511.0),
        ("08", 8.0),
        ("1_000", 1000.0),
        ("1_000.5_0e1_0", 10005e9),
        ("inf", math.inf),
        ("+Inf", math.inf),
        ("-INF", -math.inf),
        ("--3", 3.0),
        ("-3", -3.0),
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("-250ms", -0.25),
        ("1y", 365 * 86400.0),
    ],
)
def test_numbers(text: str, value: float) -> None:
    assert parse_expr(text) == num(value)


def test_nan_compares_equal_to_itself_as_a_tree() -> None:
    assert parse_expr("NaN") == parse_expr("-nan")
    parsed = parse_expr("nan")
    assert isinstance(parsed, NumberLiteral)
    assert math.isnan(parsed.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"plain"', "plain"),
        ("'it\"s'", 'it"s'),
        (r'"\a\b\f\n\r\t\v\\\""', '\a\b\f\n\r\t\v\\"'),
        (r"'\''", "'"),
        (r'"\101\x41\u0041\U00000041"', "AAAA"),
        (r'"\xc3\xa9é\303\251"', "ééé"),
        (r"`(\d+)\n`", r"(\d+)\n"),
        ("`two\nlines`", "two\nlines"),
        ('"# no comment"', "# no comment"),
        ('""', ""),
    ],
)
def test_strings(text: str, value: str) -> None:
    assert parse_expr(text) == StringLiteral(value=value)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a", A),
        ("a{}", A),
        ("a:b:c", sel("a:b:c")),
        ('a{x="1",}', sel("a", eq("x", "1"))),
        ('a{x!="1"}', sel("a", Matcher("x", MatchOp.NOT_EQUAL, "1"))),
        ('a{x=~"1.*"}', sel("a", Matcher("x", MatchOp.REGEX, "1.*"))),
        ('a{x!~"1|2"}', sel("a", Matcher("x", MatchOp.NOT_REGEX, "1|2"))),
        ('{x="1", y=""}', sel("", eq("x", "1"), eq("y", ""))),
        ('{"a"}', A),
        ('{x="1", "a"}', sel("a", eq("x", "1"))),
        ('{"a", __name__="b"}', sel("a", eq(METRIC_NAME, "b"))),
        ("{'a', 'b'}", sel("a", eq(METRIC_NAME, "b"))),
        ('{"a.b", "c d"="e"}', sel("a.b", eq("c d", "e"))),
        ('{__name__="a"}', sel("", eq(METRIC_NAME, "a"))),
        (
            'a{by="1", on="2", sum="3", inf="4"}',
            sel("a", *map(eq, ("by", "on", "sum", "inf"), "1234")),
        ),
        ("sum", sel("sum")),
        ("by", sel("by")),
        ("Offset", sel("Offset")),
        ("start", sel("start")),
        ("fill", sel("fill")),
        ('{"bool"}', sel("bool")),
        ("a # comment { \n{x='1'} # more", sel("a", eq("x", "1"))),
        ("a offset 5m", sel("a", offset=5 * MINUTE)),
        ("a OFFSET -5m", sel("a", offset=-5 * MINUTE)),
        ("a offset 90", sel("a", offset=90_000)),
        ("offset offset 1m", sel("offset", offset=MINUTE)),
        ("a @ 1.5", sel("a", at=1500)),
        ("a @ -1", sel("a", at=-1000)),
        ("a @ 0.0005", sel("a", at=1)),
        ("a @ -2.5005", sel("a", at=-2501)),
        ("a @ start()", sel("a", at=AtAnchor.START)),
        ("a @ END ( )", sel("a", at=AtAnchor.END)),
        ("a @ 2 offset 1m", sel("a", at=2000, offset=MINUTE)),
        ("a offset 1m @ 2", sel("a", at=2000, offset=MINUTE)),
        ("a[5m]", MatrixSelector(selector=A, range=5 * MINUTE)),
        ("a[ 1.5 ]", MatrixSelector(selector=A, range=1500)),
        (
            "a[5m] @ 2 offset 1m",
            MatrixSelector(selector=sel("a", at=2000, offset=MINUTE), range=5 * MINUTE),
        ),
        ("a[5m:1m]", Subquery(expr=A, range=5 * MINUTE, step=MINUTE)),
        ("a[5m:]", Subquery(expr=A, range=5 * MINUTE)),
        (
            "a offset 1m [5m:] offset 2m @ end()",
            Subquery(
                expr=sel("a", offset=MINUTE),
                range=5 * MINUTE,
                offset=2 * MINUTE,
                at=AtAnchor.END,
            ),
        ),
    ],
)
def test_selectors(text: str, tree: Expr) -> None:
    assert parse_expr(text) == tree


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a + b * c", binary("+", A, binary("*", B, C))),
        ("a * b + c", binary("+", binary("*", A, B), C)),
        ("a - b - c", binary("-", binary("-", A, B), C)),
        ("a ^ b ^ c", binary("^", A, binary("^", B, C))),
        ("a atan2 b % c", binary("%", binary("atan2", A, B), C)),
        ("a > b + c", binary(">", A, binary("+", B, C))),
        ("a or b and c", binary("or", A, binary("and", B, C))),
        ("a and b unless c", binary("unless", binary("and", A, B), C)),
        ("a Or b", binary("or", A, B)),
        ("and and and", binary("and", sel("and"), sel("and"))),
        ("-a ^ b", Unary(op="-", expr=binary("^", A, B))),
        ("-a * b", binary("*", Unary(op="-", expr=A), B)),
        ("a ^ -b * c", binary("*", binary("^", A, Unary(op="-", expr=B)), C)),
        ("-1 ^ 2", Unary(op="-", expr=binary("^", num(1), num(2)))),
        ("-a offset 1m", Unary(op="-", expr=sel("a", offset=MINUTE))),
        ("a + b offset 1m", binary("+", A, sel("b", offset=MINUTE))),
        ("(a)", Paren(expr=A)),
        ("1 < bool 2", binary("<", num(1), num(2), return_bool=True)),
        ("a == BOOL b", binary("==", A, B, return_bool=True)),
        ("a + 1", binary("+", A, num(1))),
        (
            "a + on() b",
            binary("+", A, B, matching=VectorMatching(on=True)),
        ),
        (
            "a / ignoring(x,) group_left(y, 'z z') b",
            binary(
                "/",
                A,
                B,
                matching=VectorMatching(
                    card=Cardinality.MANY_TO_ONE, labels=("x",), include=("y", "z z")
                ),
            ),
        ),
        (
            "a / on(x) group_right b",
            binary(
                "/",
                A,
                B,
                matching=VectorMatching(card=Cardinality.ONE_TO_MANY, on=True, labels=("x",)),
            ),
        ),
        (
            "a unless on(x) b",
            binary("unless", A, B, matching=VectorMatching(card=MANY, on=True, labels=("x",))),
        ),
    ],
)
def test_operators(text: str, tree: Expr) -> None:
    assert parse_expr(text) == tree


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("sum(a)", Aggregate(op="sum", expr=A)),
        ("SUM by (x, y) (a)", Aggregate(op="sum", expr=A, grouping=("x", "y"))),
        ("avg(a) without (x)", Aggregate(op="avg", expr=A, grouping=("x",), without=True)),
        ("min by () (a)", Aggregate(op="min", expr=A)),
        ('max by ("x y", by, on) (a)', Aggregate(op="max", expr=A, grouping=("x y", "by", "on"))),
        ("topk(3, a)", Aggregate(op="topk", expr=A, param=num(3))),
        (
            "quantile without (x) (0.5, a)",
            Aggregate(op="quantile", expr=A, param=num(0.5), grouping=("x",), without=True),
        ),
        (
            "count_values('v', a)",
            Aggregate(op="count_values", expr=A, param=StringLiteral(value="v")),
        ),
        ("time()", Call(func="time", args=(), returns=ValueType.SCALAR)),
        (
            "rate(a[5m])",
            Call(
                func="rate",
                args=(MatrixSelector(selector=A, range=5 * MINUTE),),
                returns=ValueType.VECTOR,
            ),
        ),
        ("round(a)", Call(func="round", args=(A,), returns=ValueType.VECTOR)),
        ("round(a, 5)", Call(func="round", args=(A, num(5)), returns=ValueType.VECTOR)),
        ("hour()", Call(func="hour", args=(), returns=ValueType.VECTOR)),
    ],
)
def test_calls_and_aggregations(text: str, tree: Expr) -> None:
    assert parse_expr(text) == tree


def test_nodes_know_where_they_stood() -> None:
    text = "sum by (x) (rate(a{b='c'}[5m] offset 1m)) +\n  on(x) (b)"
    where = {
        text[node.pos.start : node.pos.end]: type(node).__name__ for node in parse_expr(text).walk()
    }
    assert where == {
        text: "Binary",
        "sum by (x) (rate(a{b='c'}[5m] offset 1m))": "Aggregate",
        "rate(a{b='c'}[5m] offset 1m)": "Call",
        "a{b='c'}[5m] offset 1m": "MatrixSelector",
        "a{b='c'}": "VectorSelector",
        "(b)": "Paren",
        "b": "VectorSelector",
    }
    assert parse_expr(" a").pos == Position(1, 2)


def test_depth_is_bounded_and_reaches_far_enough() -> None:
    nested = "(" * (MAX_DEPTH - 1) + "a" + ")" * (MAX_DEPTH - 1)
    assert parse_expr(nested).height == MAX_DEPTH
    chained = " + ".join(["a"] * MAX_DEPTH)
    assert parse_expr(chained).height == MAX_DEPTH
    for hostile in (
        f"({nested})",
        f"{chained} + a",
        "(" * 10_000,
        "-" * 10_000 + "a",
        "sum(" * 10_000,
    ):
        with pytest.raises(PromQLError, match=f"more than {MAX_DEPTH} levels deep"):
            parse_expr(hostile)


def test_a_rule_pack_parses_in_milliseconds() -> None:
    best = math.inf
    for _ in range(5):
        start = time.process_time()
        for text in CORPUS[:40]:
            parse_expr(text)
        best = min(best, time.process_time() - start)
    assert best < 0.1
