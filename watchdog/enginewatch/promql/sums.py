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
    total, error = _group_compensated(np.where(present, values, 0.0), groups)
    return total + error


def group_means(values: FloatArray, present: BoolArray, groups: Grouping) -> FloatArray:
    """The mean of each group's present rows, rubbish where there are none."""
    counts = np.maximum(group_counts(present, groups), 1)
    total, error = _group_compensated(np.where(present, values, 0.0), groups)
    means = total / counts + error / counts
    for row in np.flatnonzero(~np.isfinite(total)).tolist():
        start = groups.starts[row]
        members = groups.order[start : start + groups.sizes[row]]
        means[row] = _careful_mean(values[members][present[members]], means[row])
    return means


def _group_compensated(terms: FloatArray, groups: Grouping) -> tuple[FloatArray, FloatArray]:
    """As `_compensated`, for the terms of each group in the order of their rows."""
    size = len(groups.layout)
    total, error = np.zeros(size), np.zeros(size)
    if size == len(terms):
        return terms[groups.order], error
    if _adds_exactly(terms[None, :]):
        return totals(groups.group, terms, size), error
    padded = np.append(terms, 0.0)
    for members, cells in groups.layout.derive("cells", lambda: _cells(groups)):
        total[members], error[members] = _compensated(padded[cells])
    return total, error


def _cells(groups: Grouping) -> list[tuple[IntArray, IntArray]]:
    """Groups of like size together: their numbers, and a table with the rows of each.

    Sizes in one table differ by less than a factor of 2, so that little of it
    is padding. What pads is the number of all rows: one past the last.
    """
    place = np.arange(len(groups.order)) - np.repeat(groups.starts, groups.sizes)
    by_size = np.ceil(np.log2(np.maximum(groups.sizes, 1)))
    tables = []
    for each in np.unique(by_size):
        members = np.flatnonzero(by_size == each)
        cells = np.full((len(members), groups.sizes[members].max()), len(groups.order))
        line = np.full(len(groups.sizes), -1)
        line[members] = np.arange(len(members))
        lines = line[groups.group[groups.order]]
        here = lines >= 0
        cells[lines[here], place[here]] = groups.order[here]
        tables.append((members, cells))
    return tables
