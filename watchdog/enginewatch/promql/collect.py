"""Vectors of successive steps gathered into series: for subqueries and for range queries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Final

import numpy as np

from enginewatch.model import Labels, Millis
from enginewatch.promql.layouts import derive_pair, relabelling
from enginewatch.promql.values import NOTHING, Matrix, Series, Vector
from enginewatch.store.base import BoolArray, FloatArray, IntArray, Layout

MEMOISED: Final = 4
"""So many layouts of an expression are expected to come again: its own and unions with others."""


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
    whole, rows = _common([vector.layout for vector in vectors])
    shape = (len(whole), len(vectors))
    values, present = np.zeros(shape), np.zeros(shape, dtype=np.bool_)
    marked = np.zeros(len(whole), dtype=np.bool_)
    for step, vector in enumerate(vectors):
        here = rows[vector.layout]
        values[here, step] = vector.values
        present[here, step] = vector.present
        if vector.nameless is not None:
            marked[here] |= vector.nameless & vector.present
    return whole, values, present, marked if marked.any() else None


Rows = dict[Layout, IntArray | slice]


def _common(layouts: Iterable[Layout]) -> tuple[Layout, Rows]:
    """A layout with the series of all, and where those of each stand in it."""
    distinct = list(dict.fromkeys(layouts))
    if len(distinct) > MEMOISED:
        # Layouts made at every step, as by count_values: nothing to remember.
        place = _numbered(labels for layout in distinct for labels in layout.labels)
        return Layout(tuple(place)), {each: _places(each, place) for each in distinct}
    whole = reduce(_merged, distinct, NOTHING)
    return whole, {each: _rows(each, whole) for each in distinct}


def _merged(left: Layout, right: Layout) -> Layout:
    """A layout with the rows of both, those of `left` first."""
    if not len(left) or not len(right):
        return left if len(left) else right
    return derive_pair(
        left, right, "merged", lambda: relabelling((*left.labels, *right.labels)).layout
    )


def _rows(part: Layout, whole: Layout) -> IntArray | slice:
    if part is whole:
        return slice(None)
    return derive_pair(part, whole, "rows", lambda: _places(part, _numbered(whole.labels)))


def _numbered(labels: Iterable[Labels]) -> dict[Labels, int]:
    return {each: row for row, each in enumerate(dict.fromkeys(labels))}


def _places(part: Layout, place: dict[Labels, int]) -> IntArray:
    return np.array([place[labels] for labels in part.labels], dtype=np.int64)
