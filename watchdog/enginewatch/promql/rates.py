"""How fast and how often a series changed over a window: rate, increase, irate, changes, resets."""

from __future__ import annotations

from typing import Final

import numpy as np

from enginewatch.promql.values import Matrix
from enginewatch.store.base import BoolArray, FloatArray, IntArray

NEAR: Final = 1.1
"""Within this many sampling intervals of the window's edge, a series is taken to go on to it."""


def extrapolated(
    matrix: Matrix, *, counter: bool, per_second: bool, as_in_2x: bool = False
) -> tuple[FloatArray, BoolArray]:
    """The change over the window, extrapolated to its edges (`extrapolatedRate` in Prometheus).

    For a counter a fall is a restart from 0, and the extrapolation back stops
    where the counter would have been 0. 2.x looked for that place before it
    bounded the extrapolation, 3.x does so after.
    """
    present = matrix.counts >= 2
    if not present.any():
        return np.zeros(len(matrix.layout)), present
    first, last, first_time, last_time = _ends(matrix)
    change = last - first
    if counter:
        # One after the other, as Prometheus adds them: where a large counter fell to a small one,
        # their sum first would lose the small one's digits.
        row, column = _falls(matrix)
        np.add.at(change, row, matrix.values[row, column])
    sampled = (last_time - first_time) / 1000
    interval = sampled / (matrix.counts - 1)
    near = interval * NEAR
    to_start = (first_time - matrix.start) / 1000
    to_end = (matrix.end - last_time) / 1000
    rising = (change > 0) & (first >= 0) & counter
    to_zero = np.where(rising, sampled * (first / change), np.inf)
    if as_in_2x:
        to_start = np.minimum(to_start, to_zero)
    to_start = np.where(to_start >= near, interval / 2, to_start)
    to_start = np.minimum(to_start, to_zero)
    to_end = np.where(to_end >= near, interval / 2, to_end)
    factor = (sampled + to_start + to_end) / sampled
    if per_second:
        factor = factor / ((matrix.end - matrix.start) / 1000)
    return change * factor, present


def _ends(matrix: Matrix) -> tuple[FloatArray, FloatArray, IntArray, IntArray]:
    """First and last values, first and last times; rubbish in empty rows."""
    rows, last = np.arange(len(matrix.layout)), np.maximum(matrix.counts - 1, 0)
    values, times = matrix.values, matrix.times
    return values[:, 0], values[rows, last], times[:, 0], times[rows, last]


def _falls(matrix: Matrix) -> tuple[IntArray, IntArray]:
    """Row and column of each sample that is followed by a smaller one."""
    return _within(matrix, matrix.values[:, 1:] < matrix.values[:, :-1])


def _within(matrix: Matrix, steps: BoolArray) -> tuple[IntArray, IntArray]:
    """Where `steps` (between a sample and the next) is true of samples that exist."""
    # Steps of interest are few: looking them up beats masking the whole matrix, and
    # numpy finds them an order of magnitude faster in one dimension than in two.
    row, column = np.divmod(np.flatnonzero(steps), max(steps.shape[1], 1))
    real = column + 1 < matrix.counts[row]
    return row[real], column[real]


def instant(matrix: Matrix, *, counter: bool) -> tuple[FloatArray, BoolArray]:
    """irate (`counter`) or idelta: from the last two samples of each row alone."""
    present = matrix.counts >= 2
    if not present.any():
        return np.zeros(len(matrix.layout)), present
    rows, last = np.arange(len(matrix.layout)), np.maximum(matrix.counts - 1, 1)
    after, before = matrix.values[rows, last], matrix.values[rows, last - 1]
    change = after - before
    if not counter:
        return change, present
    elapsed = (matrix.times[rows, last] - matrix.times[rows, last - 1]) / 1000
    return np.where(after < before, after, change) / elapsed, present


def resets(matrix: Matrix) -> tuple[FloatArray, BoolArray]:
    row, _ = _falls(matrix)
    return _tally(matrix, row)


def changes(matrix: Matrix) -> tuple[FloatArray, BoolArray]:
    """How often the value changed; a NaN after a NaN is no change."""
    before, after = matrix.values[:, :-1], matrix.values[:, 1:]
    row, column = _within(matrix, before != after)
    changed = ~(np.isnan(before[row, column]) & np.isnan(after[row, column]))
    return _tally(matrix, row[changed])


def _tally(matrix: Matrix, row: IntArray) -> tuple[FloatArray, BoolArray]:
    counts = np.bincount(row, minlength=len(matrix.layout)).astype(np.float64)
    return counts, matrix.counts > 0
