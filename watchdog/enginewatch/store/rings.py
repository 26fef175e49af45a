"""Where every lane's ring stands, as columns, so that one read can ask for many at once.

A lane is the clock that some series of one source share: sample k of each of them
was written in the same round, at the same time. The lane's number indexes these
columns. Sample k of a ring is in slot `(start + k) % width`.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, Protocol

import numpy as np

from enginewatch.model import Millis
from enginewatch.store.base import BoolArray, IntArray
from enginewatch.store.pool import Pool

LONG_AGO: Final[Millis] = -(1 << 62)
"""Before every time: the newest time of an empty ring."""


class Tenant(Protocol):
    """A lane, as those see it that keep count of rows."""

    @property
    def number(self) -> int: ...
    @property
    def pool(self) -> Pool: ...
    @property
    def series(self) -> IntArray: ...
    @property
    def rows(self) -> IntArray: ...
    def row(self, series: int) -> int: ...
    def follow(self, moved: IntArray) -> None: ...


class Rings:
    """`start`, `count`, `newest` (time) and `clock` (row of times), each `[lane]`."""

    def __init__(self) -> None:
        self.start: IntArray = np.zeros(0, np.int64)
        self.count: IntArray = np.zeros(0, np.int64)
        self.newest: IntArray = np.zeros(0, np.int64)
        self.clock: IntArray = np.zeros(0, np.int64)
        self.lanes: list[Tenant | None] = []
        self._unused: list[int] = []

    @property
    def nbytes(self) -> int:
        return 4 * self.start.nbytes

    def open(self, lane: Tenant) -> int:
        """The number of a new lane, its ring empty."""
        if self._unused:
            number = self._unused.pop()
            self.lanes[number] = lane
        else:
            number = len(self.lanes)
            self.lanes.append(lane)
            if number >= len(self.start):
                for column in (self.start, self.count, self.newest, self.clock):
                    column.resize(number + max(16, number // 4), refcheck=False)
        self.start[number] = self.count[number] = 0
        self.newest[number] = LONG_AGO
        return number

    def close(self, number: int) -> None:
        self.lanes[number] = None
        self._unused.append(number)

    def lane(self, number: int) -> Tenant:
        lane = self.lanes[number]
        assert lane is not None
        return lane

    def upto(self, pool: Pool, lanes: IntArray, time: Millis) -> IntArray:
        """How many samples of each lane are at or before `time`; all lanes are in `pool`."""
        count = self.count[lanes]
        if (self.newest[lanes] <= time).all():
            return count
        start, first = self.start[lanes], self.clock[lanes] * pool.width
        times = pool.times.reshape(-1)

        def reached(nth: IntArray) -> BoolArray:
            slot = start + nth
            slot -= pool.width * (slot >= pool.width)
            within: BoolArray = times[first + slot] <= time
            return within

        # Lanes of one pace have about as many samples after `time` as the first lane has,
        # which brackets the answer; where it does not, the whole ring is searched.
        later = count[0] - self._upto(pool, int(lanes[0]), time)
        low = np.maximum(count - later - 1, 0)
        high = np.minimum(low + 2, count)
        bracketed = ((low == 0) | reached(low - 1)) & ((high == count) | ~reached(high))
        low, high = np.where(bracketed, low, 0), np.where(bracketed, high, count)
        for _ in range(int((high - low).max()).bit_length()):
            middle = (low + high) >> 1
            # Where the search is over, low == high, the cell may be beyond the samples.
            before = reached(middle) & (low < high)
            low, high = np.where(before, middle + 1, low), np.where(before, high, middle)
        return low

    def _upto(self, pool: Pool, lane: int, time: Millis) -> int:
        times, start = pool.times[self.clock[lane]], int(self.start[lane])
        return bisect_right(
            range(int(self.count[lane])), time, key=lambda nth: times[(start + nth) % pool.width]
        )
