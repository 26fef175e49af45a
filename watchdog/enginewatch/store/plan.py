"""Where a selection's samples are: its rows, gathered by pool, for reads of many at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from enginewatch.store.base import IntArray
from enginewatch.store.placement import Placement
from enginewatch.store.pool import Pool
from enginewatch.store.rings import Rings


class Group(NamedTuple):
    """Rows of one pool. `places[i]` is the series of row i, by its place in the layout.

    `lanes` are the distinct lanes of the rows, `lanes[lane_at[i]]` is row i's; where
    each row has a lane of its own, `lane_at` is None and `lanes` are in the rows' order.
    `ranks[i]` is 0 for a series' first writer, 1 for the next, and so on.
    """

    pool: Pool
    places: IntArray
    ranks: IntArray
    rows: IntArray
    lanes: IntArray
    lane_at: IntArray | None


class Plan(NamedTuple):
    """`first` has every series' first writer, `shared` all writers of series that have several."""

    first: tuple[Group, ...]
    shared: tuple[Group, ...]


NO_PLAN = Plan((), ())


def plan(placement: Placement, series: IntArray) -> Plan:
    """How to read these series; good until series, or `placement.moves`, change."""
    places, rings = np.arange(len(series)), placement.rings
    lanes, rows = placement.lane_of[series], placement.row_of[series]
    first = _by_pool(rings, places, np.zeros_like(places), lanes, rows)
    shared = []
    if placement.writers:
        shared = [
            (place, rank, lane.number, lane.row(number))
            for place, number in enumerate(series.tolist())
            for rank, lane in enumerate(placement.writers.get(number, ()))
        ]
    if not shared:
        return Plan(first, ())
    return Plan(first, _by_pool(rings, *np.array(shared, np.int64).T))


def _by_pool(
    rings: Rings, places: IntArray, ranks: IntArray, lanes: IntArray, rows: IntArray
) -> tuple[Group, ...]:
    distinct, lane_at = np.unique(lanes, return_inverse=True)
    pools = [rings.lane(number).pool for number in distinct.tolist()]
    widths = np.array([pool.width for pool in pools], np.int64)
    groups = []
    for width in np.unique(widths).tolist():
        pool = pools[int(np.argmax(widths == width))]
        here = widths[lane_at] == width
        mine = lanes[here]
        within, at = np.unique(mine, return_inverse=True)
        among = (mine, None) if len(within) == len(mine) else (within, at)
        groups.append(Group(pool, places[here], ranks[here], rows[here], *among))
    return tuple(groups)
