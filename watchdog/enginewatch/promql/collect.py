"""Vectors of successive steps gathered into series: for subqueries and for range queries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from enginewatch.model import Millis
from enginewatch.promql.layouts import derive_pair, relabelling
from enginewatch.promql.values import NOTHING, Matrix, Series, Vector
from enginewatch.store.base import BoolArray, FloatArray, IntArray, Layout


def to_matrix(steps: Sequence[tuple[Millis, Vector]], start: Millis, end: Millis) -> Matrix:
    """The present samples of each series at those times, which must ascend.

    Series with the same labels are one, whichever layouts they came in.
    """
    times = np.array([at for at, _ in steps], dtype=np.int64)
    layout, values, present, marked = _stacked([vector for _, vector in steps])
    counts = np.count_nonzero(present, axis=1)
    if not present.all():
        # Stable, so what is present comes first and stays in order.
        order = np.argsort(~present, axis=1, kind="stable")
        values = np.take_along_axis(values, order, axis=1)
        stamps = times[order]
    else:
        stamps = np.broadcast_to(times, values.shape)
    return Matrix(layout, values, stamps, counts, start, end, nameless=marked)


def to_series(matrix: Matrix) -> tuple[Series, ...]:
    """The series that have samples, in order of their labels."""
    return tuple(sorted(matrix.series(), key=lambda series: series.labels))


def _stacked(
    vectors: Sequence[Vector],
) -> tuple[Layout, FloatArray, BoolArray, BoolArray | None]:
    """All vectors in one layout, as values and presence of shape (series, steps)."""
    layout = NOTHING
    for part in dict.fromkeys(vector.layout for vector in vectors):
        layout = _merged(layout, part)
    shape = (len(layout), len(vectors))
    values, present = np.zeros(shape), np.zeros(shape, dtype=np.bool_)
    marked = np.zeros(len(layout), dtype=np.bool_)
    for step, vector in enumerate(vectors):
        rows = _rows(vector.layout, layout)
        values[rows, step] = vector.values
        present[rows, step] = vector.present
        if vector.nameless is not None:
            marked[rows] |= vector.nameless & vector.present
    return layout, values, present, marked if marked.any() else None


def _merged(left: Layout, right: Layout) -> Layout:
    """A layout with the rows of both, those of `left` first."""
    if not len(left) or not len(right):
        return left if len(left) else right
    return derive_pair(
        left, right, "merged", lambda: relabelling((*left.labels, *right.labels))
    ).layout


def _rows(part: Layout, whole: Layout) -> IntArray | slice:
    """Where the rows of `part` stand in `whole`."""
    if part is whole:
        return slice(None)

    def find() -> IntArray:
        place = {labels: row for row, labels in enumerate(whole.labels)}
        return np.array([place[labels] for labels in part.labels], dtype=np.int64)

    return derive_pair(part, whole, "rows", find)
