"""Samples ranked within their groups, and the aggregations that pick some of them, such as topk."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from hashlib import blake2b
from typing import Final, NamedTuple

import numpy as np

from enginewatch.model import Labels
from enginewatch.promql.ast import Aggregate
from enginewatch.promql.context import Context
from enginewatch.promql.errors import EvaluationError
from enginewatch.promql.layouts import Grouping
from enginewatch.promql.values import Vector
from enginewatch.store.base import FloatArray, IntArray, Layout
from enginewatch.units import format_float

MAX_K: Final = 2.0**63
"""Prometheus counts in 64 bits and refuses what does not fit."""


class Ranked(NamedTuple):
    """The present rows group by group; group `g` has `rows[starts[g]:ends[g]]`."""

    rows: IntArray
    starts: IntArray
    ends: IntArray

    def places(self) -> IntArray:
        """Each row's place within its group, from 0."""
        return np.arange(len(self.rows)) - np.repeat(self.starts, self.ends - self.starts)


def _ranked(rows: IntArray, groups: Grouping) -> Ranked:
    counts = np.bincount(groups.group[rows], minlength=len(groups.layout))
    ends = np.cumsum(counts)
    return Ranked(rows, ends - counts, ends)


def in_order(vector: Vector, groups: Grouping) -> Ranked:
    """Rows as they stand, within each group."""
    return _ranked(groups.order[vector.present[groups.order]], groups)


def by_value(vector: Vector, groups: Grouping, *, nan_last: bool, sign: int = 1) -> Ranked:
    """Rows by `sign` times their value; equal ones as they stand, NaN at one end."""
    live = np.flatnonzero(vector.present)
    values = vector.values[live]
    missing = np.isnan(values)
    keys = (sign * values, missing if nan_last else ~missing, groups.group[live])
    return _ranked(live[np.lexsort(keys)], groups)


def _kept(vector: Vector, rows: IntArray) -> Vector:
    """Only these rows of a vector, shown in their order."""
    present = np.zeros(len(vector.layout), dtype=np.bool_)
    present[rows] = True
    return Vector(vector.layout, vector.values, present, order=rows, nameless=vector.nameless)


def _how_many(node: Aggregate, context: Context) -> int:
    assert node.param is not None
    wanted = context.scalar(node.param)
    if math.isnan(wanted):
        raise EvaluationError("Parameter value is NaN")
    if abs(wanted) >= MAX_K:
        raise EvaluationError(f"Scalar value {format_float(wanted)} overflows int64")
    return max(0, int(wanted))


def _topk(node: Aggregate, vector: Vector, groups: Grouping, context: Context) -> Vector:
    """The k largest (smallest) of each group; NaN only where nothing else is left."""
    k = _how_many(node, context)
    sign = -1 if node.op == "topk" else 1
    ranked = by_value(vector, groups, nan_last=True, sign=sign)
    return _kept(vector, ranked.rows[ranked.places() < k])


def _limitk(node: Aggregate, vector: Vector, groups: Grouping, context: Context) -> Vector:
    """Any k of each group: here the first."""
    k = _how_many(node, context)
    ranked = in_order(vector, groups)
    return _kept(vector, ranked.rows[ranked.places() < k])


def _limit_ratio(node: Aggregate, vector: Vector, _: Grouping, context: Context) -> Vector:
    """About that share of the series, by a hash of their labels; `-r` picks those `1-r` leaves."""
    assert node.param is not None
    ratio = context.scalar(node.param)
    if math.isnan(ratio):
        raise EvaluationError("Ratio value is NaN")
    if abs(ratio) > 1:
        capped = math.copysign(1, ratio)
        context.warn(
            f"ratio value should be between -1 and 1, got {format_float(ratio)},"
            f" capping to {format_float(capped)}",
            node.param.pos,
        )
        ratio = capped
    places = _hashed(vector.layout)
    chosen = places < ratio if ratio >= 0 else places >= 1 + ratio
    return _kept(vector, np.flatnonzero(vector.present & chosen))


def _hashed(layout: Layout) -> FloatArray:
    """A number from 0 to 1 for each series, the same in every process."""
    return layout.derive("hashed", lambda: np.array([_hash(each) for each in layout.labels]))


def _hash(labels: Labels) -> float:
    text = "\xff".join(part for pair in labels.items() for part in pair)
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def _count_values(node: Aggregate, vector: Vector, groups: Grouping, context: Context) -> Vector:
    """How many rows of each group have a value, for each value, which becomes a label."""
    assert node.param is not None
    label = context.string(node.param)
    check_label_name(label)
    live = np.flatnonzero(vector.present)
    # By their bits, as -0 is not 0 here.
    bits, number = np.unique(vector.values[live].view(np.int64), return_inverse=True)
    names = [format_float(value) for value in bits.view(np.float64).tolist()]
    tally = Counter(zip(groups.group[live].tolist(), number.tolist(), strict=True))
    counts: dict[Labels, float] = {}
    for (group, name), count in tally.items():
        labels = Labels({**groups.layout.labels[group], label: names[name]})
        counts[labels] = counts.get(labels, 0.0) + count
    present = np.ones(len(counts), dtype=np.bool_)
    return Vector(Layout(tuple(counts)), np.array([*counts.values()]), present)


def check_label_name(name: str) -> None:
    """Raises EvaluationError unless a series may have a label of that name."""
    try:
        valid = bool(name.encode())
    except UnicodeEncodeError:
        valid = False
    if not valid:
        shown = name.encode("ascii", "backslashreplace").decode()
        raise EvaluationError(f'invalid label name "{shown}"')


Pick = Callable[[Aggregate, Vector, Grouping, Context], Vector]

PICKS: Final[dict[str, Pick]] = {
    "topk": _topk,
    "bottomk": _topk,
    "limitk": _limitk,
    "limit_ratio": _limit_ratio,
    "count_values": _count_values,
}
