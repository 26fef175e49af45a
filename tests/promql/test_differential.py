"""The same samples in a real Prometheus: random expressions and the shipped rules come out alike.

Debian's Prometheus is 2.42. Its windows include their left edge, which the
evaluator can do too (`left_closed`). Where it differs from 3.x besides, the
difference is recognised here, one by one, and nothing else is let pass.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from tests.promql.fleet import END, START, Sample, fleet
from tests.promql.generator import Generator
from tests.promql.memory_store import MemoryStore
from tests.promql.pack_fleet import INTERVAL, SCRAPES, pack_fleet, pack_rules
from tests.promql.real_prometheus import INSTALLED, MISSING, RealPrometheus, Series, real_prometheus
from tests.promql.script import almost_equal

from enginewatch.errors import EnginewatchError
from enginewatch.model import Labels, Millis
from enginewatch.promql.ast import Aggregate, Binary, Call, Expr
from enginewatch.promql.evaluator import Evaluator
from enginewatch.promql.grammar import COMPARISONS
from enginewatch.promql.parser import parse_expr
from enginewatch.promql.values import Scalar, Vector

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.skipif(not INSTALLED, reason=MISSING),
]

SEED = int(os.environ.get("DIFFERENTIAL_SEED", "20231114"))
EXPRESSIONS = int(os.environ.get("DIFFERENTIAL_EXPRESSIONS", "2000"))
TOLERANCE = 1e-9
RULES = pack_rules(Path(__file__).parents[2] / "rules")


@pytest.fixture(scope="module")
def samples() -> list[tuple[Labels, list[Sample]]]:
    return [*fleet(SEED), *pack_fleet(RULES, SEED)]


@pytest.fixture(scope="module")
def theirs(
    tmp_path_factory: pytest.TempPathFactory,
    samples: list[tuple[Labels, list[Sample]]],
) -> Iterator[RealPrometheus]:
    with real_prometheus(tmp_path_factory.mktemp("prometheus"), samples) as server:
        yield server


@pytest.fixture(scope="module")
def ours(samples: list[tuple[Labels, list[Sample]]]) -> Evaluator:
    store = MemoryStore()
    for labels, points in samples:
        store.add(labels, points)
    return Evaluator(store, left_closed=True)


def instant(evaluator: Evaluator, expr: Expr, at: Millis) -> Series | str:
    try:
        value = evaluator.instant(expr, at)
    except EnginewatchError as failure:
        return failure.what
    if isinstance(value, Scalar):
        return {Labels(): {at: value.value}}
    assert isinstance(value, Vector)
    return {labels: {at: number} for labels, number in value.samples()}


def over_range(
    evaluator: Evaluator, expr: Expr, start: Millis, end: Millis, step: Millis
) -> Series | str:
    try:
        result = evaluator.range(expr, start, end, step)
    except EnginewatchError as failure:
        return failure.what
    return {
        labels: dict(zip(times.tolist(), values.tolist(), strict=True))
        for labels, times, values in result.series
    }


def difference(
    ours: Series | str,
    theirs: Series | str,
    tolerance: float = TOLERANCE,
    around_zero: float = 0,
) -> str:
    """What differs, or nothing. Two failures are alike, whatever they say."""
    if isinstance(ours, str) or isinstance(theirs, str):
        alike = isinstance(ours, str) and isinstance(theirs, str)
        return "" if alike else f"ours: {ours}\ntheirs: {theirs}"
    for labels in ours.keys() | theirs.keys():
        mine, other = ours.get(labels, {}), theirs.get(labels, {})
        for at in mine.keys() | other.keys():
            a, b = mine.get(at), other.get(at)
            tiny = a is not None and b is not None and abs(a) + abs(b) < around_zero
            if not tiny and not almost_equal(a, b, tolerance):
                return f"{labels} at {at}: ours {a}, theirs {b}"
    return ""


def version_difference(text: str, ours: Series | str, theirs: Series | str) -> str:
    """Why 2.42 may answer differently, or nothing if it must not."""
    nodes = list(parse_expr(text).walk())
    calls = {node.func for node in nodes if isinstance(node, Call)}
    aggregates = {node.op for node in nodes if isinstance(node, Aggregate)}
    filters = [
        node
        for node in nodes
        if isinstance(node, Binary) and node.op in COMPARISONS and not node.return_bool
    ]
    if isinstance(ours, str):
        double = ours.startswith("multiple matches for labels")
        between = any(node.matching for node in filters)
        return "2.x filters before it counts matches" if double and between else ""
    if aggregates & {"topk", "bottomk"}:
        return "which of equal samples are picked is left open"
    if aggregates & {"stddev", "stdvar"} and (filters or "nan" in str(ours)):
        return "the deviation of one sample is 0 in 2.x, even of NaN or infinity"
    if calls & {"predict_linear", "quantile_over_time", "timestamp"} and "@" in text:
        return "2.x moves fixed samples along in range queries"
    if "count_values" in aggregates and " by " in text:
        return "2.x loses labels that count_values groups by, after a range's first step"
    if not difference(ours, theirs, 1e-5, around_zero=1e-20):
        return "the last digits differ, and a deviation or difference magnifies that"
    return ""


def test_random_expressions(ours: Evaluator, theirs: RealPrometheus) -> None:
    generator, rng = Generator(SEED), random.Random(SEED)
    unexplained, explained, answered = [], Counter[str](), 0
    for number in range(EXPRESSIONS):
        text = generator.expression()
        expr = parse_expr(text)
        at = rng.randrange(START, END)
        if number % 10:
            mine, other = instant(ours, expr, at), theirs.instant(text, at)
        else:
            span = (at, at + 600_000, 60_000)
            mine, other = over_range(ours, expr, *span), theirs.range(text, *span)
        answered += bool(mine) and not isinstance(mine, str)
        found = difference(mine, other)
        if found:
            reason = version_difference(text, mine, other)
            explained[reason] += 1
            if not reason:
                unexplained.append(f"{text} at {at}\n{found}")
    assert not unexplained, "\n\n".join(unexplained[:10])
    assert explained.total() <= EXPRESSIONS / 100, explained
    assert answered >= EXPRESSIONS / 3


def test_shipped_rules(ours: Evaluator, theirs: RealPrometheus) -> None:
    times = [START + n * INTERVAL + offset for n, offset in ((40, 0), (70, 7), (95, 14_999))]
    times += range(START + 50 * INTERVAL, START + SCRAPES * INTERVAL, 11 * INTERVAL)
    differences, silent = [], []
    for rule in RULES:
        answers = 0
        for at in times:
            mine, other = instant(ours, rule.expr, at), theirs.instant(rule.text, at)
            answers += bool(mine) and not isinstance(mine, str)
            if found := difference(mine, other):
                differences.append(f"{rule.place} at {at}\n{found}")
        if not answers:
            silent.append(rule.place)
    assert not differences, "\n\n".join(differences[:10])
    # Comparing two empty answers proves little.
    assert len(silent) <= len(RULES) / 4, silent


def test_selectors_of_the_fleet_are_all_there(theirs: RealPrometheus, samples: object) -> None:
    assert isinstance(samples, list)
    names = {labels.name for labels, _ in chain(samples)}
    counted = theirs.instant('count by (__name__) (last_over_time({__name__!=""}[3h]))', END)
    assert isinstance(counted, dict)
    assert {labels.name for labels in counted} == names
