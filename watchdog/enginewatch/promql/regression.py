"""Straight lines and smoothing through a window of samples: deriv, predict_linear and the like."""

from __future__ import annotations

import numpy as np

from enginewatch.model import Millis
from enginewatch.promql.values import Matrix
from enginewatch.store.base import BoolArray, FloatArray


def slope(matrix: Matrix) -> tuple[FloatArray, BoolArray]:
    """deriv: the slope per second of the least-squares line through each row."""
    steepness, _, present = fitted(matrix, 0)
    return steepness, present


def fitted(matrix: Matrix, at: Millis) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Slope per second and level at the time `at` of each row's least-squares line.

    A row of equal values has slope 0 exactly; an infinite value makes both NaN.
    Times and values are taken relative to each row's first sample, which keeps
    the sums small and the line accurate.
    """
    present = matrix.counts >= 2
    if not present.any():
        return np.zeros(len(present)), np.zeros(len(present)), present
    count = np.maximum(matrix.counts, 1)
    there = np.arange(matrix.values.shape[1]) < matrix.counts[:, None]
    x = np.where(there, (matrix.times - matrix.times[:, :1]) / 1000, 0.0)
    y = np.where(there, matrix.values - matrix.values[:, :1], 0.0)
    mean_x, mean_y = x.sum(axis=1) / count, y.sum(axis=1) / count
    x = np.where(there, x - mean_x[:, None], 0.0)
    y = np.where(there, y - mean_y[:, None], 0.0)
    steepness = (x * y).sum(axis=1) / (x * x).sum(axis=1)
    elapsed = (at - matrix.times[:, 0]) / 1000
    level = matrix.values[:, 0] + mean_y + steepness * (elapsed - mean_x)
    return steepness, level, present


def smoothed(matrix: Matrix, level: float, trend: float) -> tuple[FloatArray, BoolArray]:
    """Holt's double exponential smoothing with factors for level and trend, both within 0 to 1."""
    present = matrix.counts >= 2
    if not present.any():
        return np.zeros(len(present)), present
    smooth = matrix.values[:, 0]
    before = np.zeros_like(smooth)
    rise = matrix.values[:, 1] - matrix.values[:, 0]
    for column in range(1, matrix.values.shape[1]):
        if column > 1:
            rise = trend * (smooth - before) + (1 - trend) * rise
        ahead = level * matrix.values[:, column] + (1 - level) * (smooth + rise)
        goes_on = column < matrix.counts
        before = np.where(goes_on, smooth, before)
        smooth = np.where(goes_on, ahead, smooth)
    return smooth, present
