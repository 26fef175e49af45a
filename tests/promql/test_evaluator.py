"""The evaluator's interface: results, limits, errors, switches, use from several threads."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from tests.promql.fleet import END, START, fleet
from tests.promql.generator import Generator
from tests.promql.memory_store import MemoryStore

from enginewatch.model import Labels, Millis
from enginewatch.promql.ast import Expr, NumberLiteral, ValueType
from enginewatch.promql.errors import EvaluationError
from enginewatch.promql.evaluator import Evaluator
from enginewatch.promql.functions import FUNCTIONS as IMPLEMENTED
from enginewatch.promql.parser import parse_expr
from enginewatch.promql.signatures import AGGREGATES, FUNCTIONS
from enginewatch.promql.values import Level, Limits, Matrix, Scalar, String, Vector

MINUTE: Millis = 60_000


def series(name: str, values: list[float], *, step: Millis = MINUTE, **labels: str) -> Any:
    return Labels(labels, __name__=name), [(n * step, v) for n, v in enumerate(values)]


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    for labels, samples in (
        series("tokens_total", [0, 60, 120, 180, 240], rank="0"),
        series("tokens_total", [0, 30, 60, 90, 120], rank="1"),
        series("running", [1, 2, 3, 4, 5]),
    ):
        store.add(labels, samples)
    return store


def instant(store: MemoryStore, text: str, at: Millis, **options: Any) -> Any:
    return Evaluator(store, **options).instant(parse_expr(text), at)


def test_each_type_of_result(store: MemoryStore) -> None:
    scalar = instant(store, "1 + 1", 0)
    assert (scalar, scalar.type) == (Scalar(2.0), ValueType.SCALAR)
    string = instant(store, '"text"', 0)
    assert (string, string.type) == (String("text"), ValueType.STRING)

    vector = instant(store, "tokens_total > 50", 90_000)
    assert isinstance(vector, Vector)
    assert vector.type is ValueType.VECTOR
    assert list(vector.samples()) == [(Labels(__name__="tokens_total", rank="0"), 60.0)]
    assert len(vector) == 1

    matrix = instant(store, "running[2m]", 3 * MINUTE)
    assert isinstance(matrix, Matrix)
    assert matrix.type is ValueType.MATRIX
    ((labels, times, values),) = matrix.series()
    assert labels == Labels(__name__="running")
    assert (times.tolist(), values.tolist()) == ([2 * MINUTE, 3 * MINUTE], [3.0, 4.0])


def test_a_range_is_series_in_order_of_labels(store: MemoryStore) -> None:
    result = Evaluator(store).range(parse_expr("-tokens_total"), MINUTE, 4 * MINUTE, 2 * MINUTE)
    assert [s.labels for s in result.series] == [Labels(rank="0"), Labels(rank="1")]
    assert result.series[1].times.tolist() == [MINUTE, 3 * MINUTE]
    assert result.series[1].values.tolist() == [-30.0, -90.0]


def test_a_range_leaves_out_steps_and_series_without_samples(store: MemoryStore) -> None:
    result = Evaluator(store).range(parse_expr("running > 3"), 0, 20 * MINUTE, MINUTE)
    ((_, times, values),) = result.series
    # The last sample stands until just before five minutes have passed.
    assert times.tolist() == [n * MINUTE for n in range(3, 9)]
    assert values.tolist() == [4.0, 5.0, 5.0, 5.0, 5.0, 5.0]
    assert Evaluator(store).range(parse_expr("running > 9"), 0, MINUTE, MINUTE).series == ()


@pytest.mark.parametrize("text", ["running[1m]", '"text"'])
def test_a_range_of_ranges_or_strings_is_refused(store: MemoryStore, text: str) -> None:
    with pytest.raises(EvaluationError, match="must be scalar or instant vector"):
        Evaluator(store).range(parse_expr(text), 0, MINUTE, MINUTE)


@pytest.mark.parametrize(("end", "step"), [(MINUTE, 0), (MINUTE, -1), (-1, MINUTE)])
def test_a_range_without_steps_is_refused(store: MemoryStore, end: Millis, step: Millis) -> None:
    with pytest.raises(EvaluationError, match="a step above 0"):
        Evaluator(store).range(parse_expr("running"), 0, end, step)


def test_annotations_come_with_the_result_once(store: MemoryStore) -> None:
    result = Evaluator(store).range(parse_expr("quantile(2, running)"), 0, 4 * MINUTE, MINUTE)
    (note,) = result.annotations
    assert note.level is Level.WARNING
    assert note.describe("quantile(2, running)") == (
        "PromQL warning: quantile value should be between 0 and 1, got 2 (1:10)"
    )
    (note,) = instant(store, "rate(running[5m])", 4 * MINUTE).annotations
    assert note.level is Level.INFO
    assert instant(store, "rate(tokens_total[5m])", 4 * MINUTE).annotations == ()


def test_lookback_and_default_step_are_settings(store: MemoryStore) -> None:
    assert len(instant(store, "running", 6 * MINUTE, lookback=2 * MINUTE + 1)) == 1
    assert len(instant(store, "running", 6 * MINUTE, lookback=2 * MINUTE)) == 0
    counted = instant(store, "count_over_time(running[2m:])", 4 * MINUTE, default_step=30_000)
    assert [value for _, value in counted.samples()] == [4.0]


def test_windows_of_2x_include_their_left_edge(store: MemoryStore) -> None:
    for text, new, old in (
        ("count_over_time(running[2m])", [2.0], [3.0]),
        ("count_over_time(running[2m:1m])", [2.0], [3.0]),
        ("count(running @ 540)", [], [1.0]),
    ):
        for left_closed, expected in ((False, new), (True, old)):
            vector = instant(store, text, 4 * MINUTE, left_closed=left_closed)
            assert [value for _, value in vector.samples()] == expected


@pytest.mark.parametrize(
    ("text", "limits", "message"),
    [
        ("rate(tokens_total[5m])", Limits(samples=9), "reads more than 9 samples"),
        ("tokens_total + tokens_total", Limits(samples=3), "reads more than 3 samples"),
        ("max_over_time(running[5m:10ms])", Limits(samples=100), "reads more than 100 samples"),
        ("max_over_time(nothing[1y:1ms])", Limits(samples=100), "reads more than 100 samples"),
        ("tokens_total", Limits(series=1), "matches 2 series, more than 1"),
        ("max_over_time(running[5m:10ms])", Limits(expired=lambda: True), "ran out of time"),
    ],
)
def test_limits_stop_a_query(store: MemoryStore, text: str, limits: Limits, message: str) -> None:
    with pytest.raises(EvaluationError, match=message):
        Evaluator(store).instant(parse_expr(text), 4 * MINUTE, limits=limits)


def test_limits_hold_over_a_whole_range(store: MemoryStore) -> None:
    evaluator, expr = Evaluator(store), parse_expr("tokens_total")
    enough = Limits(samples=15, series=2, expired=lambda: False)
    assert len(evaluator.range(expr, 0, 4 * MINUTE, MINUTE, limits=enough).series) == 2
    with pytest.raises(EvaluationError, match="more than 14 samples"):
        evaluator.range(expr, 0, 4 * MINUTE, MINUTE, limits=Limits(samples=14))
    with pytest.raises(EvaluationError, match="ran out of time"):
        evaluator.range(expr, 0, MINUTE, MINUTE, limits=Limits(expired=lambda: True))


def test_a_tree_of_wrong_types_is_an_error_and_no_crash(store: MemoryStore) -> None:
    call = parse_expr("abs(running)")
    wrong = type(call)(func="abs", args=(NumberLiteral(value=1.0),), returns=ValueType.VECTOR)
    with pytest.raises(EvaluationError, match="a vector is wanted here, not a scalar"):
        Evaluator(store).instant(wrong, 0)


def test_a_subquery_evaluates_each_step_once(store: MemoryStore) -> None:
    asked: list[Millis] = []

    class Counting(MemoryStore):
        def instant(self, matchers: Any, at: Millis, lookback: Millis) -> Any:
            asked.append(at)
            return store.instant(matchers, at, lookback)

    expr = parse_expr("max_over_time(running[5m:1m]) + (running @ 60)")
    Evaluator(Counting()).range(expr, 5 * MINUTE, 15 * MINUTE, MINUTE)
    # Steps shared by consecutive evaluations, and the part that is fixed, are computed once.
    assert len(asked) == 15 + 1


def test_nothing_depends_on_what_a_store_leaves_where_no_sample_is() -> None:
    evaluators = []
    for rubbish in (7e77, math.nan, -math.inf):
        store = MemoryStore(rubbish)
        for labels, samples in fleet(7):
            store.add(labels, samples)
        evaluators.append(Evaluator(store))
    generator = Generator(7)
    for number in range(400):
        expr = parse_expr(generator.expression())
        at = START + number * 13_007 % (END - START)
        assert len({_outcome(evaluator, expr, at) for evaluator in evaluators}) == 1, expr


def _outcome(evaluator: Evaluator, expr: Expr, at: Millis) -> str:
    try:
        value = evaluator.instant(expr, at)
    except EvaluationError as failure:
        return str(failure)
    return str(value if isinstance(value, Scalar) else list(value.samples()))  # type: ignore[attr-defined]


def test_one_evaluator_serves_several_threads(store: MemoryStore) -> None:
    evaluator = Evaluator(store)
    texts = [
        "sum by (rank) (rate(tokens_total[3m]))",
        "tokens_total / ignoring (rank) group_left running",
        "max_over_time(sum(tokens_total)[3m:1m]) or running",
    ]
    expected = [dict(instant(store, text, 4 * MINUTE).samples()) for text in texts]

    def evaluate(number: int) -> bool:
        text = number % len(texts)
        value: Any = evaluator.instant(parse_expr(texts[text]), 4 * MINUTE)
        return dict(value.samples()) == expected[text]

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(evaluate, range(200)))


def test_everything_the_parser_lets_through_is_implemented() -> None:
    assert FUNCTIONS.keys() == IMPLEMENTED.keys()
    store = MemoryStore()
    store.add(*series("v", [1.0]))
    for name, signature in AGGREGATES.items():
        param = {ValueType.SCALAR: "1, ", ValueType.STRING: '"l", '}.get(signature.param, "")  # type: ignore[arg-type]
        value: Any = Evaluator(store).instant(parse_expr(f"{name}({param}v)", experimental=True), 0)
        assert len(value) == 1


def test_arithmetic_warns_of_nothing(store: MemoryStore) -> None:
    with np.errstate(all="raise"):
        instant(store, "ln(running - 5) / 0 + exp(running * 1e9) % 0", 0)


def test_layouts_made_at_every_step_are_put_together(store: MemoryStore) -> None:
    expr = parse_expr('count_values("v", running * 10)')
    result = Evaluator(store).range(expr, 0, 4 * MINUTE, MINUTE // 2)
    assert [s.labels["v"] for s in result.series] == ["10", "20", "30", "40", "50"]
    assert result.series[2].times.tolist() == [2 * MINUTE, 2 * MINUTE + MINUTE // 2]


def test_for_rules_a_condition_that_is_false_already_is_left_at_that(store: MemoryStore) -> None:
    """Also where the other half would be an error, which a query is told of."""
    evaluator = Evaluator(store)
    faulty = "(tokens_total * on () group_left () tokens_total)"
    for op in ("and", "unless", "*", ">"):
        expr = parse_expr(f"(tokens_total > 999) {op} {faulty}")
        value = evaluator.result(expr, MINUTE)
        assert isinstance(value, Vector)
        assert not len(value)
        with pytest.raises(EvaluationError):
            evaluator.instant(expr, MINUTE)
    with pytest.raises(EvaluationError):
        evaluator.result(parse_expr(f"(tokens_total > 999) or {faulty}"), MINUTE)
