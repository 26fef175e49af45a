"""Label work, done once a layout: new names for rows, groups of rows, what two layouts share.

Everything here is memoised with `Layout.derive`, so a query over a set of
series that has not changed since the last evaluation touches no labels at all.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterable, Sequence
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


class Nameless(Layout):
    """Series without their metric names. Their labels are made only if someone looks.

    What a rule does to `rate(...)` is mostly to aggregate it, and for that the
    labels with names (`named`) do as well.
    """

    __slots__ = ("_made", "named")

    def __init__(self, named: tuple[Labels, ...]):
        super().__init__(())
        self.named = named
        self._made: tuple[Labels, ...] | None = None

    @property
    def labels(self) -> tuple[Labels, ...]:
        if self._made is None:
            self._made = tuple([each.without(METRIC_NAME) for each in self.named])
        return self._made

    def __len__(self) -> int:
        return len(self.named)


def without_name(layout: Layout) -> Relabelling:
    if isinstance(layout, Nameless) or not layout.derive("names", lambda: _names(layout)):
        return Relabelling(layout, None)
    return layout.derive("without name", lambda: _without_name(layout))


def _names(layout: Layout) -> frozenset[str]:
    return frozenset(filter(None, {each.name for each in layout.labels}))


def _without_name(layout: Layout) -> Relabelling:
    if len({each.name for each in layout.labels}) == 1:
        # Of one name, so they stay different without it.
        return Relabelling(Nameless(layout.labels), None)
    return relabelling(each.without(METRIC_NAME) for each in layout.labels)


def relabel(vector: Vector, to: Relabelling) -> Vector:
    """The vector under new labels. Raises EvaluationError where two present rows get the same."""
    if to.rows is None:
        return Vector(
            to.layout, vector.values, vector.present, order=vector.order, nameless=vector.nameless
        )
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
    group, labels = number_by(layout, names, without=without)
    sizes = np.bincount(group, minlength=len(labels))
    starts = np.cumsum(sizes) - sizes
    order = np.argsort(group, kind="stable")
    return Grouping(Layout(labels), group, sizes, order, starts)


def number_by(
    layout: Layout, names: frozenset[str], *, without: bool
) -> tuple[IntArray, tuple[Labels, ...]]:
    """Each row's group number, and the labels of each group, in order of appearance.

    A row's group is what is left of its labels: only those in `names`, or all
    but those and the metric name.
    """
    if isinstance(layout, Nameless):
        rows, names = layout.named, names - {METRIC_NAME}
    else:
        rows = layout.labels
    keys: Iterable[tuple[object, ...]]
    if without:
        gone = names | {METRIC_NAME}
        keys = (tuple([pair for pair in each.items() if pair[0] not in gone]) for each in rows)
    else:
        kept = sorted(names)
        keys = (tuple([each.get(name) for name in kept]) for each in rows)
    number_of: dict[tuple[object, ...], int] = {}
    first: list[Labels] = []
    numbers = np.empty(len(rows), dtype=np.int64)
    for row, key in enumerate(keys):
        number = number_of.setdefault(key, len(first))
        numbers[row] = number
        if number == len(first):
            first.append(rows[row])
    left = (each.without(*names, METRIC_NAME) if without else each.only(names) for each in first)
    return numbers, tuple(left)


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
