"""A lane: the series of one source that are kept equally long, and the ring they share.

Every round writes one cell of every series: a sample, a staleness marker where
the series just ended, or `MISSING`. So the newest cell alone says whether a
series is alive, and all the times are kept once for the whole lane.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np

from enginewatch.model import Millis
from enginewatch.store.base import BoolArray, FloatArray, IntArray
from enginewatch.store.placement import Placement
from enginewatch.store.pool import Pool, is_marker, width_for
from enginewatch.store.rings import LONG_AGO

_FIRST_WIDTH: Final = 16
_MOST_GROWTH: Final = 2  # what a few early intervals promise is believed up to this factor
_INTERVALS: Final = 8  # how many of the newest intervals tell the source's pace
_BATCH: Final = 512  # rows copied at once when a lane moves


class Lane:
    """Rows for some series of one source.

    `retention` is how long a sample stays readable; no younger one is overwritten.
    `members[i]` is the source's own index of the lane's i-th series, `series[i]` the
    store's number of it, and `rows[i]` its row in `pool`.
    """

    def __init__(self, placement: Placement, retention: Millis, *, samples: int = _FIRST_WIDTH):
        self.retention: Final = retention
        self.members: IntArray = np.empty(0, np.int64)
        self.series: IntArray = np.empty(0, np.int64)
        self.rows: IntArray = np.empty(0, np.int64)
        self._placement: Final = placement
        self._rings: Final = placement.rings
        self.pool = placement.pool(width_for(samples))
        self.number: Final = self._rings.open(self)
        self._rings.clock[self.number] = self.pool.take(1, self.number)[0]

    def __len__(self) -> int:
        return len(self.members)

    @property
    def count(self) -> int:
        """Rounds held."""
        return int(self._rings.count[self.number])

    @property
    def newest(self) -> Millis:
        """The time of the newest round held, or `LONG_AGO`."""
        return int(self._rings.newest[self.number])

    def row(self, series: int) -> int:
        return int(self.rows[np.flatnonzero(self.series == series)[0]])

    def times(self) -> IntArray:
        """A copy of the times of the rounds held, in order."""
        clock = self._rings.clock[[self.number]]
        start = self._rings.start[[self.number]]
        times: IntArray = self.pool.block(clock, start, self.count).view(np.int64)[0]
        return times

    def alive(self) -> BoolArray:
        """Which series, in the order of `members`, have a sample in the newest round."""
        if not self.count:
            return np.zeros(len(self), np.bool_)
        return ~is_marker(self.pool.values[self.rows, self._slot(self.count - 1)])

    def write(self, at: Millis, cells: FloatArray) -> None:
        """One round. `cells` is indexed by the source's index of a series; `at` is after all."""
        rings, number = self._rings, self.number
        if self.count == self.pool.width:
            oldest = self.pool.times[rings.clock[number], rings.start[number]]
            if oldest > at - self.retention:
                self._widen()
            else:
                rings.start[number] = self._slot(1)
                rings.count[number] -= 1
        slot = self._slot(self.count)
        self.pool.times[rings.clock[number], slot] = at
        self.pool.values[self.rows, slot] = cells[self.members]
        rings.count[number] += 1
        rings.newest[number] = at

    def cut(self, before: Millis) -> None:
        """Keep only the rounds with `time < before`."""
        times = self.times()
        kept = int(np.searchsorted(times, before))
        self._rings.count[self.number] = kept
        self._rings.newest[self.number] = times[kept - 1] if kept else LONG_AGO

    def seat(self, members: IntArray, series: IntArray) -> None:
        """Add series; they have no sample in the rounds held so far."""
        rows = self.pool.take(len(series), self.number)
        self._append(members, series, rows)
        self._placement.attach(series, self, rows)

    def unseat(self, gone: BoolArray) -> IntArray:
        """Forget series, with their samples; the answer is those that no other lane holds."""
        orphans = self._placement.detach(self.series[gone], self)
        self._discard(gone)
        return orphans

    def begin(self, times: IntArray) -> None:
        """Give an empty lane its rounds; `adopt` brings the samples."""
        rings, number = self._rings, self.number
        self.pool.times[rings.clock[number], : len(times)] = times
        rings.count[number] = len(times)
        rings.newest[number] = times[-1] if len(times) else LONG_AGO

    def adopt(self, old: Lane, chosen: BoolArray) -> None:
        """Take over series of another lane of the same source, with what history fits here.

        Lanes of a source are written in the same rounds, so their histories agree
        from the end backwards.
        """
        rows = self.pool.take(int(chosen.sum()), self.number)
        count = min(self.count, old.count)
        slots = slice(self.count - count, self.count)
        for part, cells in _batches(
            old.pool, old.rows[chosen], old._slot(old.count - count), count
        ):
            self.pool.values[rows[part], slots] = cells
        self._placement.hand_over(old.series[chosen], old, self)
        self._append(old.members[chosen], old.series[chosen], rows)
        self._placement.settle(self)
        old._discard(chosen)

    def close(self) -> None:
        """Give up an empty lane."""
        self._placement.release(self.pool, self._rings.clock[[self.number]])
        self._rings.close(self.number)

    def follow(self, moved: IntArray) -> None:
        """The pool moved rows: `moved[old]` is the new one."""
        self.rows = moved[self.rows]
        self._rings.clock[self.number] = moved[self._rings.clock[self.number]]
        self._placement.settle(self)

    def fit(self, now: Millis) -> None:
        """Narrow the rows where the source slowed down so much that half the cells are idle."""
        if self.count <= _INTERVALS:
            return
        young = self.count - int(np.searchsorted(self.times(), now - self.retention, "right"))
        width = width_for(max(young + 1, self._demand()))
        if 2 * width <= self.pool.width:
            self._move(width)

    def _widen(self) -> None:
        width = self.pool.width
        self._move(width_for(min(max(width + 1, self._demand()), _MOST_GROWTH * width)))

    def _demand(self) -> int:
        """The rounds that the retention asks for at the source's present pace.

        The median, so that one pause, or one step of the clock, changes nothing.
        """
        times: list[Millis] = self.times()[-1 - _INTERVALS :].tolist()
        intervals = sorted(after - before for before, after in pairwise(times))
        return self.retention // intervals[len(intervals) // 2] + 1

    def _move(self, width: int) -> None:
        """Change to the pool of another width, with the newest samples that fit there."""
        rings, number = self._rings, self.number
        pool, held = self.pool, np.append(self.rows, rings.clock[number])
        kept = min(self.count, width)
        first = self._slot(self.count - kept)
        self.pool = self._placement.pool(width)
        taken = self.pool.take(len(held), number)
        for part, cells in _batches(pool, held, first, kept):
            self.pool.values[taken[part], :kept] = cells
        self.rows, rings.clock[number] = taken[:-1], taken[-1]
        rings.start[number], rings.count[number] = 0, kept
        self._placement.release(pool, held)
        self._placement.settle(self)

    def _append(self, members: IntArray, series: IntArray, rows: IntArray) -> None:
        self.members = np.concatenate((self.members, members))
        self.series = np.concatenate((self.series, series))
        self.rows = np.concatenate((self.rows, rows))

    def _discard(self, gone: BoolArray) -> None:
        rows, left = self.rows[gone], ~gone
        self.members, self.series, self.rows = (
            self.members[left],
            self.series[left],
            self.rows[left],
        )
        self._placement.release(self.pool, rows)

    def _slot(self, nth: int) -> int:
        return (int(self._rings.start[self.number]) + nth) % self.pool.width


def _batches(
    pool: Pool, rows: IntArray, slot: int, count: int
) -> Iterator[tuple[slice, FloatArray]]:
    """The `count` cells of each row from `slot` on, around the ring, not too many rows at once."""
    slots = np.full(len(rows), slot)
    for first in range(0, len(rows), _BATCH):
        part = slice(first, first + _BATCH)
        yield part, pool.block(rows[part], slots[part], count)
