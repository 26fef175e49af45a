"""Reading rows: the newest cell, or all in a span, of many series at once.

`cells` and `newest_cells` copy and need the head's lock; what makes an answer of
the copies does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from enginewatch.model import Millis
from enginewatch.store.base import BoolArray, FloatArray, Instant, IntArray, Layout, Window
from enginewatch.store.plan import Group
from enginewatch.store.pool import MISSING_BITS, is_marker
from enginewatch.store.rings import Rings


class Cells(NamedTuple):
    """What rows hold in a span, markers included; `values`, `times`, `counts` as in `Window`."""

    group: Group
    values: FloatArray
    times: IntArray
    counts: IntArray


class NewestCells(NamedTuple):
    """The cell of each row's newest round, markers included, where there is one (`present`)."""

    group: Group
    values: FloatArray
    times: IntArray
    present: BoolArray


class Events(NamedTuple):
    """Samples and ends of series that have several writers, in order of place and time."""

    places: IntArray
    times: IntArray
    values: FloatArray
    ends: BoolArray


def cells(rings: Rings, group: Group, after: Millis, upto: Millis) -> Cells:
    """The cells with `after < time <= upto`."""
    pool, lanes, at = group.pool, group.lanes, group.lane_at
    skipped = rings.upto(pool, lanes, after)
    counts = np.maximum(rings.upto(pool, lanes, upto) - skipped, 0)
    width = int(counts.max(initial=0))
    slots = (rings.start[lanes] + skipped) % pool.width
    times = pool.block(rings.clock[lanes], slots, width).view(np.int64)
    if at is None:
        return Cells(group, pool.block(group.rows, slots, width), times, counts)
    values = pool.block(group.rows, slots[at], width)
    return Cells(group, values, times.take(at, axis=0), counts[at])


def newest_cells(rings: Rings, group: Group, after: Millis, upto: Millis) -> NewestCells:
    """The newest cells with `after < time <= upto`."""
    pool, lanes, at = group.pool, group.lanes, group.lane_at
    counts = rings.upto(pool, lanes, upto)
    slots = (rings.start[lanes] + counts - 1) % pool.width
    times = pool.times[rings.clock[lanes], slots]
    reached = (counts > 0) & (times > after)
    if at is None:
        return NewestCells(group, pool.values[group.rows, slots], times, reached)
    return NewestCells(group, pool.values[group.rows, slots[at]], times[at], reached[at])


def window(layout: Layout, first: Sequence[Cells], shared: Sequence[Cells]) -> Window:
    """The answer from the cells of all first writers, and of all writers of shared series."""
    parts = [(part.group.places, *_without_markers(*part[1:])) for part in first]
    if len(parts) == 1 and not shared:
        return Window(layout, *parts[0][1:])
    events = _events(shared)
    samples = ~events.ends
    merged, kept = np.unique(events.places, return_inverse=True)
    lengths = np.bincount(kept[samples], minlength=len(merged))
    width = max([part[1].shape[1] for part in parts] + lengths.tolist(), default=0)
    values = np.full((len(layout), width), np.nan)
    times = np.zeros((len(layout), width), np.int64)
    counts = np.zeros(len(layout), np.int64)
    for places, some_values, some_times, some_counts in parts:
        values[places, : some_values.shape[1]] = some_values
        times[places, : some_times.shape[1]] = some_times
        counts[places] = some_counts
    filled = np.arange(width) < lengths[:, None]
    row, slot = np.nonzero(filled)
    values[merged] = np.nan
    values[merged[row], slot] = events.values[samples]
    times[merged[row], slot] = events.times[samples]
    counts[merged] = lengths
    return Window(layout, values, times, counts)


def instant(layout: Layout, first: Sequence[NewestCells], shared: Sequence[Cells]) -> Instant:
    """As `window`, of the newest cells; `shared` holds all cells within the lookback."""
    if len(first) == 1 and not shared:
        (part,) = first
        present = part.present & ~is_marker(part.values)
        part.values[~present] = np.nan
        return Instant(layout, part.values, part.times, present)
    size = len(layout)
    values, times = np.full(size, np.nan), np.zeros(size, np.int64)
    present = np.zeros(size, np.bool_)
    for part in first:
        places = part.group.places
        values[places], times[places] = part.values, part.times
        present[places] = part.present & ~is_marker(part.values)
    if shared:
        events = _events(shared)
        last = np.append(np.diff(events.places) > 0, True)[: len(events.places)]
        places = events.places[last]
        values[places], times[places] = events.values[last], events.times[last]
        present[places] = ~events.ends[last]
    values[~present] = np.nan
    return Instant(layout, values, times, present)


def _without_markers(
    values: FloatArray, times: IntArray, counts: IntArray
) -> tuple[FloatArray, IntArray, IntArray]:
    """Pack the samples to the left. No signalling NaN is left, even as rubbish after them."""
    if not np.isnan(values).any():
        return values, times, counts
    held = np.arange(values.shape[1]) < counts[:, None]
    samples = held & ~is_marker(values)
    left = samples.sum(axis=1)
    values[~held] = np.nan
    rows = np.flatnonzero(left < counts)
    if not len(rows):
        return values, times, counts
    # Boolean indexing goes row by row on both sides, so each row keeps its own.
    chosen, filled = samples[rows], np.arange(values.shape[1]) < left[rows, None]
    some_values, some_times = np.full(chosen.shape, np.nan), np.zeros(chosen.shape, np.int64)
    some_values[filled], some_times[filled] = values[rows][chosen], times[rows][chosen]
    values[rows], times[rows] = some_values, some_times
    width = int(left.max(initial=0))
    return values[:, :width], times[:, :width], left


def _events(shared: Sequence[Cells]) -> Events:
    """All writers' cells as one series each.

    Of two at the same time a sample comes before an end, and a former writer's
    before a later one's.
    """
    if not shared:
        nothing = np.empty(0, np.int64)
        return Events(nothing, nothing, np.empty(0), np.empty(0, np.bool_))
    held = [
        (np.arange(part.values.shape[1]) < part.counts[:, None])
        & (part.values.view(np.int64) != MISSING_BITS)
        for part in shared
    ]
    rows = [np.nonzero(mask)[0] for mask in held]
    parts = list(zip(shared, rows, held, strict=True))
    place = np.concatenate([part.group.places[row] for part, row, _ in parts])
    rank = np.concatenate([part.group.ranks[row] for part, row, _ in parts])
    time = np.concatenate([part.times[mask] for part, _, mask in parts])
    value = np.concatenate([part.values[mask] for part, _, mask in parts])
    end = is_marker(value)
    order = np.lexsort((rank, end, time, place))
    place, time, value, end = place[order], time[order], value[order], end[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = (np.diff(place) != 0) | (np.diff(time) != 0)
    return Events(place[first], time[first], value[first], end[first])
