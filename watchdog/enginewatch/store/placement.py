"""Which rows hold the samples of a series: one, or several where sources share a label set.

Series are numbers here; `index` gives them labels.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from enginewatch.store.base import IntArray
from enginewatch.store.pool import Pool
from enginewatch.store.rings import Rings, Tenant


class Placement:
    """All pools and lanes, and where each series is.

    `lane_of` and `row_of`, both `[series]`, place a series' first writer; the
    lanes of all its writers, the first included, are in `writers` where there is
    more than one. `moves` counts changes to where series that exist are placed.
    """

    def __init__(self) -> None:
        self.rings = Rings()
        self.lane_of: IntArray = np.empty(0, np.int64)
        self.row_of: IntArray = np.empty(0, np.int64)
        self.writers: dict[int, list[Tenant]] = {}
        self.moves = 0
        self._pools: dict[int, Pool] = {}

    @property
    def pools(self) -> Iterable[Pool]:
        return self._pools.values()

    @property
    def nbytes(self) -> int:
        columns = self.lane_of.nbytes + self.row_of.nbytes + self.rings.nbytes
        return columns + sum(pool.nbytes for pool in self.pools)

    def pool(self, width: int) -> Pool:
        pool = self._pools.get(width)
        if pool is None:
            pool = self._pools[width] = Pool(width)
        return pool

    def release(self, pool: Pool, rows: IntArray) -> None:
        """Give rows back, and tell the lanes whose rows moved into the holes."""
        moved = pool.give_back(rows)
        if not pool.rows_in_use:
            del self._pools[pool.width]
        elif moved is not None:
            changed = moved != np.arange(len(moved))
            for number in np.unique(pool.owner[moved[changed]]).tolist():
                self.rings.lane(number).follow(moved)

    def attach(self, series: IntArray, lane: Tenant, rows: IntArray) -> None:
        """`lane` starts to write these; those that others write too become shared."""
        top = int(series.max(initial=-1)) + 1
        if top > len(self.lane_of):
            known = len(self.lane_of)
            for column in (self.lane_of, self.row_of):
                column.resize(top + max(64, top // 8), refcheck=False)
            self.lane_of[known:] = -1
        taken = self.lane_of[series] >= 0
        for number in series[taken].tolist():
            first = self.rings.lane(int(self.lane_of[number]))
            self.writers.setdefault(number, [first]).append(lane)
        if taken.any():
            self.moves += 1
        self.lane_of[series[~taken]] = lane.number
        self.row_of[series[~taken]] = rows[~taken]

    def settle(self, lane: Tenant) -> None:
        """Note the rows of a lane, after they moved."""
        mine = self.lane_of[lane.series] == lane.number
        self.row_of[lane.series[mine]] = lane.rows[mine]
        self.moves += 1

    def hand_over(self, series: IntArray, old: Tenant, new: Tenant) -> None:
        """`new` writes these in `old`'s stead and in its rank. `new.settle()` follows."""
        self.lane_of[series[self.lane_of[series] == old.number]] = new.number
        for number in self._shared_among(series):
            writers = self.writers[number]
            writers[writers.index(old)] = new

    def detach(self, series: IntArray, lane: Tenant) -> IntArray:
        """`lane` no longer writes these; the answer is those that nobody writes now."""
        kept = []
        for number in self._shared_among(series):
            writers = self.writers[number]
            writers.remove(lane)
            self.lane_of[number] = writers[0].number
            self.row_of[number] = writers[0].row(number)
            if len(writers) == 1:
                del self.writers[number]
            kept.append(number)
            self.moves += 1
        orphans = series[~np.isin(series, kept)] if kept else series
        self.lane_of[orphans] = -1
        return orphans

    def _shared_among(self, series: IntArray) -> list[int]:
        if not self.writers:
            return []
        return [number for number in series.tolist() if number in self.writers]
