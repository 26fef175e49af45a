"""Sums and means as Prometheus gets them: compensated, so that large terms can cancel out.

The algorithm is Neumaier's, as `kahansum` in Prometheus. Whole numbers below 2^53
add exactly in any order, and most counters and gauges are such: they take a
plain sum.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from enginewatch.promql.layouts import Grouping
from enginewatch.store.base import BoolArray, FloatArray, IntArray

EXACT: Final = 2.0**53
"""Whole numbers up to here, and their sums up to here, are exact in a double."""

SPARE_CELLS: Final = 1024
"""Padding that is cheaper than a Python loop, however few cells are in use."""


def row_sums(table: FloatArray) -> FloatArray:
    """The sum of each row; cells that do not count must hold 0."""
    total, error = _compensated(table)
    return total + error


def row_means(table: FloatArray, counts: IntArray) -> FloatArray:
    """The mean of each row's first `counts` cells; the others must hold 0, `counts` must not."""
    total, error = _compensated(table)
    means = total / counts + error / counts
    for row in np.flatnonzero(~np.isfinite(total)).tolist():
        means[row] = _careful_mean(table[row, : counts[row]], means[row])
    return means


def _compensated(table: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Each row's running sum from left to right, and the rounding it lost on the way."""
    if table.shape[1] == 0:
        return np.zeros(len(table)), np.zeros(len(table))
    if _adds_exactly(table):
        return table.sum(axis=1), np.zeros(len(table))
    running = np.add.accumulate(table, axis=1)
    before, term, after = running[:, :-1], table[:, 1:], running[:, 1:]
    part = after - before
    lost = (before - (after - part)) + (term - part)
    total = running[:, -1]
    error = np.add.accumulate(lost, axis=1)[:, -1] if lost.shape[1] else np.zeros(len(table))
    return total, np.where(np.isfinite(total), error, 0.0)


def totals(numbers: IntArray, terms: FloatArray, size: int) -> FloatArray:
    """Plain sums of the terms that have the same number, for the numbers below `size`."""
    summed: NDArray[Any] = np.bincount(numbers, weights=terms, minlength=size)
    return summed


def group_counts(present: BoolArray, groups: Grouping) -> IntArray:
    """How many rows of each group are present."""
    return np.bincount(groups.group[present], minlength=len(groups.layout))


def _adds_exactly(table: FloatArray) -> bool:
    # The first column tells fractions apart at the cost of one column.
    for part in (table[:, :1], table):
        if not np.array_equal(np.floor(part), part):
            return False
    return bool(np.abs(table).sum(axis=1).max(initial=0.0) < EXACT)


def _careful_mean(terms: FloatArray, mean: float) -> float:
    """`mean`, unless it is not finite only because the sum of finite terms overflowed.

    Then each term is weighted before it is added, as in Prometheus.
    """
    return math.fsum((terms / len(terms)).tolist()) if np.isfinite(terms).all() else mean


def group_sums(values: FloatArray, present: BoolArray, groups: Grouping) -> FloatArray:
    """The sum of each group's present rows; 0 where there are none."""
    counted = np.where(present, values, 0.0)
    if len(groups.layout) == len(counted):
        return counted[groups.order]
    if _adds_exactly(counted[None, :]):
        return totals(groups.group, counted, len(groups.layout))
    table = _group_table(counted, groups)
    if table is not None:
        return row_sums(table)
    ordered = counted[groups.order].tolist()
    ends = (groups.starts + groups.sizes).tolist()
    return np.array([_sum(ordered[a:b]) for a, b in zip(groups.starts.tolist(), ends, strict=True)])


def group_means(values: FloatArray, present: BoolArray, groups: Grouping) -> FloatArray:
    """The mean of each group's present rows, rubbish where there are none."""
    counts = group_counts(present, groups)
    sums = group_sums(values, present, groups)
    means = sums / np.maximum(counts, 1)
    for row in np.flatnonzero(~np.isfinite(sums)).tolist():
        start = groups.starts[row]
        members = groups.order[start : start + groups.sizes[row]]
        means[row] = _careful_mean(values[members][present[members]], means[row])
    return means


def _group_table(counted: FloatArray, groups: Grouping) -> FloatArray | None:
    """A row of cells for each group, padded with 0; None where the sizes differ so much that most
    of it would be padding."""
    widest = int(groups.sizes.max(initial=0))
    if len(groups.sizes) * widest > 4 * len(counted) + SPARE_CELLS:
        return None
    cells = groups.layout.derive("cells", lambda: _cells(groups, widest))
    return np.append(counted, 0.0)[cells]


def _cells(groups: Grouping, widest: int) -> IntArray:
    """For each group and place the row that stands there, or the number of rows where none does."""
    cells = np.full((len(groups.sizes), widest), len(groups.group), dtype=np.int64)
    place = np.arange(len(groups.order)) - np.repeat(groups.starts, groups.sizes)
    cells[groups.group[groups.order], place] = groups.order
    return cells


def _sum(terms: list[float]) -> float:
    try:
        return math.fsum(terms)
    except (OverflowError, ValueError):
        return sum(terms)
