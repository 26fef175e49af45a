"""Aggregations that make one sample of each group: sum, avg, min, max, quantile and their kin.

Those that pick samples (topk and such) or count values are in `ranking`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from enginewatch.promql import ranking
from enginewatch.promql.ast import Aggregate, Position
from enginewatch.promql.context import Context
from enginewatch.promql.layouts import Grouping, grouping
from enginewatch.promql.sums import group_counts, group_means, group_sums, totals
from enginewatch.promql.values import Vector
from enginewatch.store.base import BoolArray, FloatArray
from enginewatch.units import format_float

Reduction = Callable[[FloatArray, BoolArray, Grouping], FloatArray]
"""From the rows' values and presence to a value for each group; rubbish where none is present."""


def evaluate_aggregate(node: Aggregate, context: Context) -> Vector:
    vector = context.vector(node.expr)
    groups = grouping(vector.layout, node.grouping, without=node.without)
    pick = ranking.PICKS.get(node.op)
    if pick is not None:
        return pick(node, vector, groups, context)
    present = _any(vector.present, groups)
    if node.op == "quantile":
        values = _quantile(node, vector, groups, context)
    else:
        values = REDUCTIONS[node.op](vector.values, vector.present, groups)
    marked = vector.nameless
    if marked is not None:
        marked = _any(marked & vector.present, groups)
    return Vector(groups.layout, values, present, nameless=marked)


def _any(rows: BoolArray, groups: Grouping) -> BoolArray:
    there = np.zeros(len(groups.layout), dtype=np.bool_)
    there[groups.group[rows]] = True
    return there


def _count(_values: FloatArray, present: BoolArray, groups: Grouping) -> FloatArray:
    return group_counts(present, groups).astype(np.float64)


def _extreme(reduce: np.ufunc) -> Reduction:
    """The extreme of each group; NaN only where all are."""

    def extreme(values: FloatArray, present: BoolArray, groups: Grouping) -> FloatArray:
        if not len(values):
            return np.empty(0)
        counted = np.where(present, values, np.nan)
        result: FloatArray = reduce.reduceat(counted[groups.order], groups.starts)
        return result

    return extreme


def _variance(values: FloatArray, present: BoolArray, groups: Grouping) -> FloatArray:
    """The mean squared distance from the mean.

    Taken around each group's first value, so that equal values vary by exactly 0.
    """
    counts = np.maximum(group_counts(present, groups), 1)
    first = np.zeros(len(groups.layout))
    live = np.flatnonzero(present)[::-1]
    first[groups.group[live]] = values[live]
    shifted = np.where(present, values - first[groups.group], 0.0)
    mean = totals(groups.group, shifted, len(counts)) / counts
    squares = np.where(present, (shifted - mean[groups.group]) ** 2, 0.0)
    return totals(groups.group, squares, len(counts)) / counts


def _ones(_values: FloatArray, _present: BoolArray, groups: Grouping) -> FloatArray:
    return np.ones(len(groups.layout))


REDUCTIONS: Final[dict[str, Reduction]] = {
    "sum": group_sums,
    "avg": group_means,
    "min": _extreme(np.fmin),
    "max": _extreme(np.fmax),
    "count": _count,
    "group": _ones,
    "stdvar": _variance,
    "stddev": lambda values, present, groups: np.sqrt(_variance(values, present, groups)),
}


def _quantile(node: Aggregate, vector: Vector, groups: Grouping, context: Context) -> FloatArray:
    """Linear between the two nearest ranks; NaN counts as the smallest value."""
    assert node.param is not None
    probability = context.scalar(node.param)
    beyond = out_of_range(probability, node.param.pos, context)
    if beyond is not None:
        return np.full(len(groups.layout), beyond)
    ranked = ranking.by_value(vector, groups, nan_last=False)
    if not len(ranked.rows):
        return np.empty(len(groups.layout))
    values = vector.values[ranked.rows]
    rank = probability * np.maximum(ranked.ends - ranked.starts - 1, 0)
    below = np.floor(rank).astype(np.int64)
    weight = rank - below
    low = np.minimum(ranked.starts + below, len(values) - 1)
    high = np.minimum(low + 1, np.maximum(ranked.ends - 1, 0))
    result: FloatArray = values[low] * (1 - weight) + values[high] * weight
    return result


def out_of_range(probability: float, pos: Position, context: Context) -> float | None:
    """What a quantile is when its probability is not within 0 to 1, which earns a warning."""
    if 0 <= probability <= 1:
        return None
    context.warn(f"quantile value should be between 0 and 1, got {format_float(probability)}", pos)
    return math.nan if math.isnan(probability) else math.copysign(math.inf, probability)
