"""The function table: complete, and the same arity and types as the oracle knows."""

from __future__ import annotations

import promql_parser
import pytest

from enginewatch.promql.ast import Aggregate, Call, ValueType
from enginewatch.promql.errors import PromQLError
from enginewatch.promql.parser import parse_expr
from enginewatch.promql.signatures import AGGREGATES, FUNCTIONS, REFUSED, Signature

SAMPLE = {
    ValueType.SCALAR: "1",
    ValueType.VECTOR: "a",
    ValueType.MATRIX: "a[5m]",
    ValueType.STRING: "'a'",
}
# Newer than the oracle's own table.
UNKNOWN_TO_ORACLE = {"end", "range", "start", "step"}


def call(signature: Signature, count: int) -> str:
    args = [SAMPLE[signature.arg_type(i)] if signature.args else "1" for i in range(count)]
    return f"{signature.name}({', '.join(args)})"


def accepted(text: str) -> bool:
    try:
        parse_expr(text, experimental=True)
    except PromQLError:
        return False
    return True


def oracle_accepts(text: str) -> bool:
    try:
        promql_parser.parse(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_arity(name: str) -> None:
    signature = FUNCTIONS[name]
    for count in range(8):
        fits = count >= signature.least and (signature.most is None or count <= signature.most)
        text = call(signature, count)
        assert accepted(text) is fits
        if name not in UNKNOWN_TO_ORACLE:
            assert oracle_accepts(text) is fits


@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - UNKNOWN_TO_ORACLE))
def test_argument_types(name: str) -> None:
    signature = FUNCTIONS[name]
    right = [SAMPLE[kind] for kind in signature.args]
    for index, wanted in enumerate(signature.args):
        for kind, sample in SAMPLE.items():
            args = [*right[:index], sample, *right[index + 1 :]]
            text = f"{name}({', '.join(args)})"
            assert accepted(text) is (kind is wanted), text
            assert oracle_accepts(text) is (kind is wanted), text


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_calls_return_what_the_table_says(name: str) -> None:
    signature = FUNCTIONS[name]
    expr = parse_expr(call(signature, len(signature.args)), experimental=True)
    assert isinstance(expr, Call)
    assert expr.type is signature.returns
    assert expr.func == name == signature.name


@pytest.mark.parametrize("name", sorted(AGGREGATES))
def test_aggregations_take_their_parameter(name: str) -> None:
    signature = AGGREGATES[name]
    for kind, sample in SAMPLE.items():
        assert accepted(f"{name}({sample}, a)") is (kind is signature.param)
    assert accepted(f"{name}(a)") is (signature.param is None)
    param = "" if signature.param is None else f"{SAMPLE[signature.param]}, "
    expr = parse_expr(f"{name.upper()}({param}a)", experimental=True)
    assert isinstance(expr, Aggregate)
    assert expr.op == name


def test_gated_functions_need_the_switch_and_say_why() -> None:
    gated = {f.name for f in FUNCTIONS.values() if f.gate}
    assert {"sort_by_label", "mad_over_time", "double_exponential_smoothing"} <= gated
    for name in gated:
        signature = FUNCTIONS[name]
        with pytest.raises(PromQLError) as caught:
            parse_expr(call(signature, len(signature.args)))
        assert signature.gate in caught.value.message


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refused_functions_stay_refused(name: str) -> None:
    for experimental in (False, True):
        with pytest.raises(PromQLError) as caught:
            parse_expr(f"{name}(a)", experimental=experimental)
        assert REFUSED[name] in caught.value.message


def test_tables_do_not_overlap() -> None:
    assert not FUNCTIONS.keys() & REFUSED.keys()
    assert not FUNCTIONS.keys() & AGGREGATES.keys()
