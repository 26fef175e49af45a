"""Array kernels against the plainest way to compute the same."""

from __future__ import annotations

import itertools
import math
import statistics
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginewatch.model import Labels
from enginewatch.promql import overtime, rates, regression
from enginewatch.promql.layouts import grouping
from enginewatch.promql.sums import group_means, group_sums, row_means, row_sums
from enginewatch.promql.values import Matrix
from enginewatch.store.base import Layout

NUMBERS = st.one_of(
    st.integers(-1000, 1000).map(float),
    st.floats(-1e6, 1e6),
    st.sampled_from([1e60, -1e60, 0.1, math.inf, -math.inf, math.nan]),
)
ROWS = st.lists(st.lists(NUMBERS, max_size=9), min_size=1, max_size=8)
FINITE_ROWS = st.lists(
    st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=9), min_size=1, max_size=8
)


def matrix(rows: list[list[float]], filler: float = 7e77) -> Matrix:
    """Samples every 10 s from time 0; the window is from 5 s before to 5 s after them."""
    width = max(map(len, rows))
    values = np.array([[*row, *[filler] * (width - len(row))] for row in rows])
    times = np.tile(np.arange(width) * 10_000, (len(rows), 1))
    counts = np.array([len(row) for row in rows])
    layout = Layout([Labels(row=str(n)) for n in range(len(rows))])
    return Matrix(
        layout, values.reshape(times.shape), times, counts, -5_000, width * 10_000 - 5_000
    )


def same(ours: Any, expected: float, tolerance: float = 1e-9) -> bool:
    if math.isnan(expected) or math.isinf(expected):
        return bool(np.array_equal(ours, expected, equal_nan=True))
    return bool(abs(ours - expected) <= tolerance * max(1.0, abs(expected)))


def plain_sum(terms: list[float]) -> float:
    try:
        return math.fsum(terms)
    except ValueError:  # of both infinities
        return math.nan


@pytest.fixture(autouse=True)
def quiet() -> Any:
    with np.errstate(all="ignore"):
        yield


@settings(deadline=None, max_examples=150)
@given(ROWS)
def test_row_sums_and_means(rows: list[list[float]]) -> None:
    with np.errstate(all="ignore"):
        table = overtime.filled(matrix(rows), 0.0)
        counts = np.array([max(1, len(row)) for row in rows])
        sums, means = row_sums(table), row_means(table, counts)
    for row, total, mean in zip(rows, sums, means, strict=True):
        assert same(total, plain_sum(row))
        assert same(mean, plain_sum(row) / max(1, len(row)))


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), NUMBERS, st.booleans()), max_size=60))
def test_group_sums_and_means(members: list[tuple[str, float, bool]]) -> None:
    layout = Layout([Labels(g=g, n=str(n)) for n, (g, _, _) in enumerate(members)])
    values = np.array([value for _, value, _ in members], dtype=np.float64)
    present = np.array([there for _, _, there in members], dtype=np.bool_)
    groups = grouping(layout, ("g",), without=False)
    with np.errstate(all="ignore"):
        sums, means = group_sums(values, present, groups), group_means(values, present, groups)
    for number, labels in enumerate(groups.layout.labels):
        terms = [value for g, value, there in members if there and g == labels["g"]]
        assert same(sums[number], plain_sum(terms))
        if terms:
            assert same(means[number], plain_sum(terms) / len(terms))


def test_groups_of_very_different_sizes() -> None:
    sizes = [1, 1000, 3, 1, 40, 2]
    labels = [Labels(g=str(g), n=str(n)) for g, size in enumerate(sizes) for n in range(size)]
    groups = grouping(Layout(labels), ("g",), without=False)
    values = np.full(len(labels), 0.1)
    sums = group_sums(values, np.ones(len(labels), dtype=np.bool_), groups)
    assert sums.tolist() == pytest.approx([size / 10 for size in sizes], rel=1e-15)


@settings(deadline=None, max_examples=100)
@given(ROWS, st.sampled_from([0, 0.1, 0.5, 0.77, 1]))
def test_quantiles(rows: list[list[float]], probability: float) -> None:
    with np.errstate(all="ignore"):
        found = overtime.quantile(matrix(rows), probability)
    for row, ours in zip(rows, found, strict=True):
        if row:
            ordered = sorted(row, key=lambda v: (v == v, v if v == v else 0))
            rank = probability * (len(row) - 1)
            low, high = ordered[math.floor(rank)], ordered[min(math.floor(rank) + 1, len(row) - 1)]
            weight = rank - math.floor(rank)
            assert same(ours, low * (1 - weight) + high * weight)


@settings(deadline=None, max_examples=100)
@given(FINITE_ROWS)
def test_deviations_lines_and_extremes(rows: list[list[float]]) -> None:
    samples = matrix(rows)
    with np.errstate(all="ignore"):
        spread, _ = overtime.KERNELS["stddev_over_time"](samples)
        low, _ = overtime.KERNELS["min_over_time"](samples)
        slope, present = regression.slope(samples)
    assert present.all()
    for row, deviation, smallest, ours in zip(rows, spread, low, slope, strict=True):
        assert same(deviation, statistics.pstdev(row), 1e-6)
        assert smallest == min(row)
        line = statistics.linear_regression([n * 10.0 for n in range(len(row))], row)
        assert same(ours, line.slope, 1e-7)


@settings(deadline=None, max_examples=150)
@given(st.lists(st.lists(st.integers(0, 50).map(float), max_size=9), min_size=1, max_size=8))
def test_rates(rows: list[list[float]]) -> None:
    samples = matrix(rows)
    with np.errstate(all="ignore"):
        grown, present = rates.extrapolated(samples, counter=True, per_second=False)
        fell, _ = rates.resets(samples)
        changed, _ = rates.changes(samples)
    for number, row in enumerate(rows):
        steps = list(itertools.pairwise(row))
        assert present[number] == (len(row) >= 2)
        assert fell[number] == sum(b < a for a, b in steps)
        assert changed[number] == sum(b != a for a, b in steps)
        if len(row) >= 2:
            assert same(grown[number], plain_increase(row, samples.end))


@settings(deadline=None, max_examples=100)
@given(st.lists(st.floats(0.0, 100.0), min_size=1, max_size=6))
def test_a_counter_that_falls_from_far_keeps_the_digits_of_the_small(after: list[float]) -> None:
    row = [1.7e9, *after, 0.0]
    grown, _ = rates.extrapolated(matrix([row]), counter=True, per_second=False)
    assert same(grown[0], plain_increase(row, 10_000 * len(row) - 5_000), 1e-12)


def plain_increase(row: list[float], end: int) -> float:
    """The increase as Prometheus describes it, one sample after the other."""
    total = sum(b - a if b >= a else b for a, b in itertools.pairwise(row))
    sampled, interval = (len(row) - 1) * 10.0, 10.0
    before, after = 5.0, end / 1000 - sampled
    if after >= interval * 1.1:
        after = interval / 2
    if total > 0:
        before = min(before, sampled * row[0] / total)
    return total * (sampled + before + after) / sampled
