"""Printing: the canonical text, and that it is read again as the same tree."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from tests.support.expressions import CORPUS, any_tree, strip_parens

from enginewatch.promql.ast import Binary, Expr, NumberLiteral, Unary
from enginewatch.promql.parser import parse_expr
from enginewatch.promql.printer import format_expr


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("sum(x)by(job)", "sum by (job) (x)"),
        ("SUM(x) WITHOUT()", "sum without () (x)"),
        ("sum by () (x)", "sum(x)"),
        ("a+b*c", "a + b * c"),
        ("a\n  +\n  b # why", "a + b"),
        ("( a )", "(a)"),
        ("-1^2", "-1 ^ 2"),
        ("2^-x*y", "2 ^ -x * y"),
        ("x{ b = 'c' , a=~`d\\d` , }", 'x{b="c", a=~"d\\\\d"}'),
        ('{"x", a="b"}', 'x{a="b"}'),
        ('{a="b", "x y"}', '{"x y", a="b"}'),
        ('{"on"}', '{"on"}'),
        ('{"a b"="c"}', '{"a b"="c"}'),
        ('{__name__!="y", "x"}', '{"x", __name__!="y"}'),
        ("a + on() 1", "a + 1"),
        ("{__name__='x'}", '{__name__="x"}'),
        ("x[90s] offset -1h @ 5", "x[1m30s] @ 5 offset -1h"),
        ("x[300]", "x[5m]"),
        ("x[1h:]", "x[1h:]"),
        ("x @ -1.5", "x @ -1.500"),
        ("x @ END()", "x @ end()"),
        ("a==bool on(x)group_left b", "a == bool on (x) group_left () b"),
        ("a / ignoring() b", "a / b"),
        ("a and on() b", "a and on () b"),
        ('sum by ("a b", without_x, "without") (x)', 'sum by ("a b", without_x, "without") (x)'),
        ("5m + 0x10 + 1e300 - .5 + inF", "300 + 16 + 1e+300 - 0.5 + Inf"),
        ("'\"\\n\\t\\u00e9'", '"\\"\\n\\x09é"'),
    ],
)
def test_canonical_text(text: str, printed: str) -> None:
    assert format_expr(parse_expr(text)) == printed


@pytest.mark.parametrize("text", CORPUS)
def test_parsed_trees_come_back_exactly(text: str) -> None:
    expr = parse_expr(text)
    printed = format_expr(expr)
    assert "\n" not in printed
    assert parse_expr(printed) == expr
    assert format_expr(parse_expr(printed)) == printed


@given(expr=any_tree)
@settings(deadline=None, max_examples=400)
def test_any_tree_keeps_its_meaning(expr: Expr) -> None:
    printed = format_expr(expr)
    parsed = parse_expr(printed)
    assert strip_parens(parsed) == expr
    assert parse_expr(format_expr(parsed)) == parsed


def test_parentheses_are_added_only_where_meaning_needs_them() -> None:
    one, two = NumberLiteral(value=1), NumberLiteral(value=-2)
    total = Binary(op="+", left=one, right=two)
    assert format_expr(Binary(op="*", left=total, right=total)) == "(1 + -2) * (1 + -2)"
    assert format_expr(Binary(op="+", left=total, right=one)) == "1 + -2 + 1"
    assert format_expr(Binary(op="+", left=one, right=total)) == "1 + (1 + -2)"
    assert format_expr(Binary(op="^", left=two, right=two)) == "(-2) ^ -2"
    assert format_expr(Unary(op="-", expr=one)) == "-(1)"
