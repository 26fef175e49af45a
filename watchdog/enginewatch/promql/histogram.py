"""Quantiles and fractions of classic histograms: `_bucket` series with an upper bound in `le`.

All histograms of a vector are laid out in one table, a row for each histogram
and a column for each bound, so that every step is one array operation. The last
column is the `+Inf` bucket; where a histogram has no bucket, or it is absent
now, the cell repeats the bucket before it and so can't be chosen.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from enginewatch.model import Labels
from enginewatch.promql.aggregate import out_of_range
from enginewatch.promql.ast import Call, Expr, Position
from enginewatch.promql.context import Context
from enginewatch.promql.layouts import relabel, relabelling
from enginewatch.promql.ranking import check_label_name
from enginewatch.promql.sums import totals
from enginewatch.promql.values import Vector, no_series
from enginewatch.store.base import BoolArray, FloatArray, IntArray, Layout
from enginewatch.units import format_float

BUCKET: Final = "le"

TOLERANCE: Final = 1e-12
"""Relative difference between neighbouring counts that is put down to float arithmetic."""

_FLOAT: Final = re.compile(
    r"[+-]?(?:inf(?:inity)?|nan|(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)", re.IGNORECASE | re.ASCII
)


class Plan(NamedTuple):
    """Where the rows of a layout go in the table of its histograms.

    `rows` are the layout's rows that are buckets and `cells` their flat places;
    several rows may share a cell, their bounds being equal, and add up there.
    `bounds` has the upper bounds, NaN in unused cells. `names` are the labels of
    each histogram without `le`, and `malformed` the rows that have no bound.
    """

    rows: IntArray
    cells: IntArray
    shared: bool
    bounds: FloatArray
    names: Layout
    malformed: IntArray


def plan(layout: Layout) -> Plan:
    return layout.derive("histograms", lambda: _plan(layout))


def _plan(layout: Layout) -> Plan:
    number_of: dict[Labels, int] = {}
    buckets: defaultdict[int, dict[float, list[int]]] = defaultdict(lambda: defaultdict(list))
    malformed = []
    for row, labels in enumerate(layout.labels):
        bound = _bound(labels.get(BUCKET, ""))
        if bound is None:
            malformed.append(row)
            continue
        number = number_of.setdefault(labels.without(BUCKET), len(number_of))
        buckets[number][bound].append(row)
    width = max((len(bounds.keys() | {math.inf}) for bounds in buckets.values()), default=0)
    table = np.full((len(number_of), width), np.nan)
    rows: list[int] = []
    cells: list[int] = []
    for number, bounds in buckets.items():
        ordered = sorted(bounds.keys() - {math.inf})
        table[number, : len(ordered)] = ordered
        table[number, -1] = math.inf
        places = {bound: place for place, bound in enumerate(ordered)} | {math.inf: width - 1}
        for bound, members in bounds.items():
            rows.extend(members)
            cells.extend([number * width + places[bound]] * len(members))
    flat = np.array(cells, dtype=np.int64)
    return Plan(
        np.array(rows, dtype=np.int64),
        flat,
        len(np.unique(flat)) < len(flat),
        table,
        Layout(tuple(number_of)),
        np.array(malformed, dtype=np.int64),
    )


def _bound(text: str) -> float | None:
    """An upper bound as Go's ParseFloat reads it, or None."""
    return float(text) if _FLOAT.fullmatch(text) else None


class Buckets(NamedTuple):
    """Cumulative counts and upper bounds, each of shape (histograms, bounds).

    Cells before a histogram's first bucket hold -inf in both. `present` tells
    which histograms have a bucket now, `whole` which have that of `+Inf`, and
    `sizes` how many they have.
    """

    counts: FloatArray
    bounds: FloatArray
    sizes: IntArray
    whole: BoolArray
    present: BoolArray


def _buckets(where: Plan, vector: Vector) -> Buckets:
    shape, size = where.bounds.shape, where.bounds.size
    there = vector.present[where.rows]
    values = np.where(there, vector.values[where.rows], 0.0)
    if where.shared:
        counts = totals(where.cells, values, size)
        known = np.bincount(where.cells[there], minlength=size) > 0
    else:
        counts, known = np.zeros(size), np.zeros(size, dtype=np.bool_)
        counts[where.cells], known[where.cells] = values, there
    counts, known, bounds = counts.reshape(shape), known.reshape(shape), where.bounds
    if not known.all():
        source = np.maximum.accumulate(np.where(known, np.arange(shape[1]), -1), axis=1)
        counts = np.where(source < 0, -np.inf, np.take_along_axis(counts, source, axis=1))
        bounds = np.where(source < 0, -np.inf, np.take_along_axis(bounds, source, axis=1))
    sizes = known.sum(axis=1)
    return Buckets(counts, bounds, sizes, known[:, -1], sizes > 0)


def _monotonic(counts: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Counts that never fall from one bound to the next, and which rows were forced to.

    Buckets are scraped and summed with rounding and at slightly different
    times. A rise too small to mean anything is taken out silently.
    """
    before, after = counts[:, :-1], counts[:, 1:]
    gap = np.abs(after - before)
    doubtful = (after < before) | ((gap > 0) & (gap < TOLERANCE * (np.abs(before) + np.abs(after))))
    rows = np.flatnonzero(doubtful.any(axis=1))
    forced = np.zeros(len(counts), dtype=np.bool_)
    if len(rows):
        fixed = counts[rows]
        for column in range(1, counts.shape[1]):
            previous, current = fixed[:, column - 1], fixed[:, column]
            near = np.abs(current - previous) < TOLERANCE * (np.abs(previous) + np.abs(current))
            falls = current < previous
            forced[rows] |= falls & ~near
            fixed[:, column] = np.where(near | falls, previous, current)
        counts = counts.copy()
        counts[rows] = fixed
    return counts, forced


def _column(cells: FloatArray, column: IntArray) -> FloatArray:
    taken: FloatArray = np.take_along_axis(cells, column[:, None], axis=1)[:, 0]
    return taken


def _below(table: Buckets, column: IntArray) -> tuple[BoolArray, FloatArray, FloatArray]:
    """Whether a bucket is its histogram's first, and bound and count of the bucket before it."""
    previous = np.maximum(column - 1, 0)
    count = _column(table.counts, previous)
    is_first = (column == 0) | (count == -np.inf)
    return (
        is_first,
        np.where(is_first, 0.0, _column(table.bounds, previous)),
        np.where(is_first, 0.0, count),
    )


def _quantiles(table: Buckets, probability: float) -> FloatArray:
    """Linear within a bucket, as if its observations were spread evenly (`BucketQuantile`)."""
    total = table.counts[:, -1]
    rank = probability * total
    column = np.count_nonzero(~(table.counts[:, :-1] >= rank[:, None]), axis=1)
    is_first, start, count_before = _below(table, column)
    end = _column(table.bounds, column)
    share = (rank - count_before) / (_column(table.counts, column) - count_before)
    values = start + (end - start) * share
    values = np.where(is_first & (end <= 0), end, values)
    # Beyond the last finite bound nothing is known but that bound.
    last = max(table.counts.shape[1] - 2, 0)
    values = np.where(column > last, table.bounds[:, last], values)
    return np.where(table.whole & (table.sizes > 1) & (total != 0), values, np.nan)


def _fractions(table: Buckets, lower: float, upper: float) -> FloatArray:
    """The share of observations between two values (`BucketFraction`)."""
    total = table.counts[:, -1]
    if math.isnan(lower) or math.isnan(upper):
        return np.full(len(total), np.nan)
    if lower >= upper:
        share = np.zeros(len(total))
    else:
        share = (_rank_of(table, upper) - _rank_of(table, lower)) / total
    return np.where(table.whole & (total != 0), share, np.nan)


def _rank_of(table: Buckets, value: float) -> FloatArray:
    """How many observations lie below `value`."""
    total = table.counts[:, -1]
    column = np.count_nonzero(table.bounds <= value, axis=1)
    beyond = column == table.bounds.shape[1]
    column = np.where(beyond, 0, column)
    is_first, start, count_before = _below(table, column)
    end, count = _column(table.bounds, column), _column(table.counts, column)
    # The first bucket starts at 0, unless its bound says that values can be negative.
    start = np.where(is_first & (end <= 0), -np.inf, start)
    within = count_before + (count - count_before) * ((value - start) / (end - start))
    rank = np.where(start >= value, count_before, np.where(start == -np.inf, count, within))
    return np.minimum(np.where(beyond, total, rank), total)


def _histogram_quantile(call: Call, context: Context) -> Vector:
    probability, operand = call.args
    found = _all_quantiles(operand, (probability,), context)
    return found[0] if found else no_series()


def _histogram_quantiles(call: Call, context: Context) -> Vector:
    """Several quantiles of each histogram; a label tells which."""
    operand, label, *probabilities = call.args
    name = context.string(label)
    check_label_name(name)
    found = _all_quantiles(operand, probabilities, context)
    if not found:
        return no_series()
    texts = [_as_label(context.scalar(probability)) for probability in probabilities]
    layout = found[0].layout
    named = layout.derive(
        ("histogram_quantiles", name, *texts),
        lambda: relabelling(
            Labels({**labels, name: text}) for text in texts for labels in layout.labels
        ),
    )
    values = np.concatenate([vector.values for vector in found])
    present = np.concatenate([vector.present for vector in found])
    merged = relabel(Vector(named.layout, values, present), named)
    return context.nameless(merged.layout, merged.values, merged.present)


def _as_label(probability: float) -> str:
    return repr(probability) if math.isfinite(probability) else format_float(probability)


def _all_quantiles(operand: Expr, probabilities: Sequence[Expr], context: Context) -> list[Vector]:
    """A vector of quantiles for each probability; none where there are no histograms."""
    asked = [(context.scalar(each), each.pos) for each in probabilities]
    vector = context.vector(operand)
    where = plan(vector.layout)
    beyond = [out_of_range(probability, pos, context) for probability, pos in asked]
    _warn_of_malformed(where, vector, operand.pos, context)
    if not len(where.names):
        return []
    table = _buckets(where, vector)
    counts, forced = _monotonic(table.counts)
    _tell_of_forced(where, forced & table.present, operand.pos, context)
    table = table._replace(counts=counts)
    return [
        context.nameless(
            where.names,
            _quantiles(table, probability) if out is None else np.full(len(counts), out),
            table.present,
        )
        for (probability, _), out in zip(asked, beyond, strict=True)
    ]


def _histogram_fraction(call: Call, context: Context) -> Vector:
    lower, upper = context.scalar(call.args[0]), context.scalar(call.args[1])
    vector = context.vector(call.args[2])
    where = plan(vector.layout)
    _warn_of_malformed(where, vector, call.args[2].pos, context)
    if not len(where.names):
        return no_series()
    table = _buckets(where, vector)
    return context.nameless(where.names, _fractions(table, lower, upper), table.present)


def _warn_of_malformed(where: Plan, vector: Vector, pos: Position, context: Context) -> None:
    for row in where.malformed[vector.present[where.malformed]].tolist():
        labels = vector.layout.labels[row]
        context.warn(
            f'bucket label "{BUCKET}" is missing or has a malformed value of'
            f' "{labels.get(BUCKET, "")}" for metric name "{labels.name}"',
            pos,
        )


def _tell_of_forced(where: Plan, forced: BoolArray, pos: Position, context: Context) -> None:
    for name in sorted({where.names.labels[row].name for row in np.flatnonzero(forced).tolist()}):
        context.inform(
            "input to histogram_quantile needed to be fixed for monotonicity (see https://"
            "prometheus.io/docs/practices/histograms/#errors-of-quantile-estimation)"
            f' for metric name "{name}"',
            pos,
        )


FUNCTIONS: Final[dict[str, Callable[[Call, Context], Vector]]] = {
    "histogram_fraction": _histogram_fraction,
    "histogram_quantile": _histogram_quantile,
    "histogram_quantiles": _histogram_quantiles,
}
