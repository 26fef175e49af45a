"""A page says what its value is compared with, and says the truth."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.rules.conftest import Pack

from enginewatch.alerting.rules import AlertingRule
from enginewatch.notify.threshold import ANNOTATION, Threshold, parse_threshold
from enginewatch.promql.ast import Aggregate, Binary, Expr, NumberLiteral, Paren, Unary
from enginewatch.promql.parser import parse_expr

COMPARISONS = {">", ">=", "<", "<=", "==", "!="}


def number(expr: Expr) -> float | None:
    match expr:
        case NumberLiteral(value=value):
            return value
        case Paren(expr=inner):
            return number(inner)
        case Unary(op="-", expr=inner):
            found = number(inner)
            return None if found is None else -found
    return None


def compared(expr: Expr) -> Iterator[tuple[str, float]]:
    """The comparisons with a number that the value of an expression's result has passed."""
    match expr:
        case Paren(expr=inner) | Aggregate(expr=inner):
            yield from compared(inner)
        case Binary(op="or"):
            yield from compared(expr.left)
            yield from compared(expr.right)
        case Binary(op="and" | "unless"):
            yield from compared(expr.left)
        case Binary(op=op, return_bool=False) if op in COMPARISONS:
            limit = number(expr.right)
            if limit is not None:
                yield op, limit
            yield from compared(expr.left)


def asks_how_much(op: str, limit: float) -> bool:
    """Rather than whether something is so, or whether there is any."""
    return op not in {"==", "!="} and (op, limit) != (">", 0.0)


def thresholds(rule: AlertingRule) -> tuple[str, Threshold | None]:
    text = rule.annotations[ANNOTATION].text if ANNOTATION in rule.annotations else ""
    return text, parse_threshold(text)


def test_every_page_that_compares_its_value_with_a_number_says_which(pack: Pack) -> None:
    for rule in pack.alerts:
        if rule.labels["severity"].text != "page":
            continue
        if any(asks_how_much(*each) for each in compared(rule.expr)):
            assert ANNOTATION in rule.annotations, f"{rule.name} needs the annotation {ANNOTATION}"


def test_a_threshold_stands_in_the_expression(pack: Pack) -> None:
    seen = 0
    for rule in pack.alerts:
        text, threshold = thresholds(rule)
        if text:
            seen += 1
            assert threshold is not None, f"{rule.name}: {text!r} is not like '>= 15 s'"
            found = (threshold.op, pytest.approx(threshold.number))
            assert found in list(compared(rule.expr)), f"{rule.name}: {text!r} is not its expr's"
    assert seen


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("up == 0", [("==", 0.0)]),
        ("a > 5 and b > 7", [(">", 5.0)]),
        ("a > 5 or b > 7", [(">", 5.0), (">", 7.0)]),
        ("max by (x) (a >= 2) < 9", [("<", 9.0), (">=", 2.0)]),
        ("a > bool 5", []),
        ("a > b", []),
        ("a < -(3)", [("<", -3.0)]),
    ],
)
def test_what_a_value_is_compared_with(text: str, found: list[tuple[str, float]]) -> None:
    assert list(compared(parse_expr(text))) == found
