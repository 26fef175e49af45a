"""Label work, done once a layout: new names for rows, groups of rows, what two layouts share.

Everything here is memoised with `Layout.derive`, so a query over a set of
series that has not changed since the last evaluation touches no labels at all.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np

from enginewatch.model import METRIC_NAME, Labels
from enginewatch.promql.errors import EvaluationError
from enginewatch.promql.values import Vector
from enginewatch.store.base import IntArray, Layout

T = TypeVar("T")


class Relabelling(NamedTuple):
    """A layout with other labels. `rows` gives the new row of each old one, None where all stay."""

    layout: Layout
    rows: IntArray | None


def relabelling(labels: Iterable[Labels]) -> Relabelling:
    """Rows that get the same labels become one row: they may be present at different times."""
    row_of: dict[Labels, int] = {}
    rows = [row_of.setdefault(each, len(row_of)) for each in labels]
    if len(row_of) == len(rows):
        return Relabelling(Layout(tuple(row_of)), None)
    return Relabelling(Layout(tuple(row_of)), np.array(rows, dtype=np.int64))


def without_name(layout: Layout) -> Relabelling:
    return layout.derive(
        "without name", lambda: relabelling(each.without(METRIC_NAME) for each in layout.labels)
    )


def relabel(vector: Vector, to: Relabelling) -> Vector:
    """The vector under new labels. Raises EvaluationError where two present rows get the same."""
    if to.rows is None:
        return replace(vector, layout=to.layout, times=None)
    live = np.flatnonzero(vector.present)
    target = to.rows[live]
    hits = np.bincount(target, minlength=len(to.layout))
    if hits.max(initial=0) > 1:
        raise EvaluationError("vector cannot contain metrics with the same labelset")
    values = np.zeros(len(to.layout))
    values[target] = vector.values[live]
    order = None if vector.order is None else to.rows[vector.order]
    marked = None
    if vector.nameless is not None:
        marked = np.zeros(len(to.layout), dtype=np.bool_)
        marked[target] = vector.nameless[live]
    return Vector(to.layout, values, hits > 0, order=order, nameless=marked)


class Grouping(NamedTuple):
    """Rows sorted into groups. `layout` has a row for each group, none of them empty.

    `group` is the group of each row, `sizes` counts the rows of each group,
    `order` lists the rows group by group and `starts` is where each begins there.
    """

    layout: Layout
    group: IntArray
    sizes: IntArray
    order: IntArray
    starts: IntArray


def grouping(layout: Layout, names: Sequence[str], *, without: bool) -> Grouping:
    """Groups of an aggregation, `by (names)` or `without (names)`."""
    wanted = frozenset(names)
    return layout.derive(
        ("grouping", wanted, without), lambda: _grouping(layout, wanted, without=without)
    )


def _grouping(layout: Layout, names: frozenset[str], *, without: bool) -> Grouping:
    numbers, keys = number_by(layout, names, without=without)
    sizes = np.bincount(numbers, minlength=len(keys))
    starts = np.cumsum(sizes) - sizes
    order = np.argsort(numbers, kind="stable")
    return Grouping(Layout([Labels(key) for key in keys]), numbers, sizes, order, starts)


Key = tuple[tuple[str, str], ...]


def number_by(
    layout: Layout, names: frozenset[str], *, without: bool
) -> tuple[IntArray, tuple[Key, ...]]:
    """Each row's group number, and the label pairs that make each group, in order of appearance.

    A row's group is what is left of its labels: only those in `names`, or all
    but those and the metric name.
    """
    number_of: dict[Key, int] = {}
    if without:
        gone = names | {METRIC_NAME}
        keys = (tuple(p for p in each.items() if p[0] not in gone) for each in layout.labels)
    else:
        kept = sorted(names)
        keys = (tuple((n, each[n]) for n in kept if n in each) for each in layout.labels)
    numbers = [number_of.setdefault(key, len(number_of)) for key in keys]
    return np.array(numbers, dtype=np.int64), tuple(number_of)


def derive_pair(left: Layout, right: Layout, key: Hashable, build: Callable[[], T]) -> T:
    """Like `Layout.derive`, for a value computed from two layouts.

    It is kept on `left` and forgotten with `right`. So the value must hold
    neither of them, or it would keep itself alive.
    """
    by_right: weakref.WeakKeyDictionary[Layout, T] = left.derive(
        ("pair", key), weakref.WeakKeyDictionary
    )
    try:
        return by_right[right]
    except KeyError:
        value = by_right[right] = build()
        return value
