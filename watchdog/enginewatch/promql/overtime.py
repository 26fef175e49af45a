"""Each series' window of samples folded into one value: the *_over_time functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from enginewatch.promql.sums import row_means, row_sums
from enginewatch.promql.values import Matrix
from enginewatch.store.base import BoolArray, FloatArray, IntArray

Columns = tuple[FloatArray, BoolArray]
Kernel = Callable[[Matrix], Columns]


def filled(matrix: Matrix, filler: float) -> FloatArray:
    """The values, with `filler` where a row has no sample."""
    width = matrix.values.shape[1]
    if bool((matrix.counts == width).all()):
        return matrix.values
    return np.where(np.arange(width) < matrix.counts[:, None], matrix.values, filler)


def _if_any(fold: Callable[[Matrix], FloatArray], matrix: Matrix) -> Columns:
    """`fold`, where there are samples. It need not care for windows that are empty throughout."""
    present = matrix.counts > 0
    if not present.any():
        return np.zeros(len(matrix.layout)), present
    return fold(matrix), present


def _mean(matrix: Matrix) -> FloatArray:
    return row_means(filled(matrix, 0.0), np.maximum(matrix.counts, 1))


def _variance(matrix: Matrix) -> FloatArray:
    """Around each row's first value, so that equal values vary by exactly 0."""
    counts = np.maximum(matrix.counts, 1)
    there = np.arange(matrix.values.shape[1]) < matrix.counts[:, None]
    shifted = np.where(there, matrix.values - matrix.values[:, :1], 0.0)
    mean = shifted.sum(axis=1) / counts
    squares = np.where(there, (shifted - mean[:, None]) ** 2, 0.0)
    spread: FloatArray = squares.sum(axis=1) / counts
    return spread


def first(matrix: Matrix) -> Columns:
    return _if_any(lambda each: each.values[:, 0], matrix)


def last(matrix: Matrix) -> Columns:
    return _if_any(lambda each: _at(each, each.values, each.counts - 1), matrix)


def _at(matrix: Matrix, cells: FloatArray, column: IntArray) -> FloatArray:
    return cells[np.arange(len(matrix.layout)), np.maximum(column, 0)]


def _seconds_at(matrix: Matrix, column: IntArray) -> FloatArray:
    return _at(matrix, matrix.times / 1000, column)


def _extreme_time(fill: float, arg: Callable[..., IntArray], matrix: Matrix) -> FloatArray:
    """When the extreme was seen last. NaN is passed over unless there is nothing else."""
    cells = filled(matrix, np.nan)
    backwards = np.where(np.isnan(cells), fill, cells)[:, ::-1]
    column = cells.shape[1] - 1 - arg(backwards, axis=1)
    nothing = np.isnan(cells).all(axis=1)
    return _seconds_at(matrix, np.where(nothing, matrix.counts - 1, column))


def quantile(matrix: Matrix, probability: float) -> FloatArray:
    """Linear between the two nearest ranks; NaN counts as the smallest value."""
    if matrix.values.shape[1] == 0:
        return np.zeros(len(matrix.layout))
    cells = np.sort(filled(matrix, np.nan), axis=1)
    missing = matrix.counts - np.count_nonzero(~np.isnan(cells), axis=1)
    rank = probability * np.maximum(matrix.counts - 1, 0)
    below = np.floor(rank).astype(np.int64)
    above = np.minimum(below + 1, matrix.counts - 1)
    weight = rank - below

    def ranked(place: IntArray) -> FloatArray:
        return np.where(place < missing, np.nan, _at(matrix, cells, place - missing))

    return ranked(below) * (1 - weight) + ranked(above) * weight


def _median_deviation(matrix: Matrix) -> FloatArray:
    """The median distance from the median; NaN where there is a NaN."""
    cells = filled(matrix, np.nan)
    distance = np.abs(cells - quantile(matrix, 0.5)[:, None])
    missing = matrix.counts > np.count_nonzero(~np.isnan(cells), axis=1)
    return np.where(missing, np.nan, quantile(replace(matrix, values=distance), 0.5))


_FOLDS: Final[dict[str, Callable[[Matrix], FloatArray]]] = {
    "avg_over_time": _mean,
    "count_over_time": lambda matrix: matrix.counts.astype(np.float64),
    "mad_over_time": _median_deviation,
    "max_over_time": lambda matrix: np.fmax.reduce(filled(matrix, np.nan), axis=1),
    "min_over_time": lambda matrix: np.fmin.reduce(filled(matrix, np.nan), axis=1),
    "present_over_time": lambda matrix: np.ones(len(matrix.layout)),
    "stddev_over_time": lambda matrix: np.sqrt(_variance(matrix)),
    "stdvar_over_time": _variance,
    "sum_over_time": lambda matrix: row_sums(filled(matrix, 0.0)),
    "ts_of_first_over_time": lambda matrix: _seconds_at(matrix, np.zeros_like(matrix.counts)),
    "ts_of_last_over_time": lambda matrix: _seconds_at(matrix, matrix.counts - 1),
    "ts_of_max_over_time": partial(_extreme_time, -np.inf, np.argmax),
    "ts_of_min_over_time": partial(_extreme_time, np.inf, np.argmin),
}

KERNELS: Final[dict[str, Kernel]] = {name: partial(_if_any, fold) for name, fold in _FOLDS.items()}
