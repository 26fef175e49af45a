"""Rows of one width: the memory that samples live in.

A pool is one array, `cells[row, slot]`. A row is a ring: it holds the values of a
series, or, bit for bit, the int64 times of a lane (see `rings`). Rows are handed
out and taken back in any order. The array follows the number of rows in use, up
in small steps and down by moving its last rows into the holes, so that memory is
what the samples need and not the next power of two.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

from enginewatch.model import STALE_BITS
from enginewatch.store.base import BoolArray, FloatArray, IntArray

MISSING_BITS: Final = STALE_BITS | 1
MISSING: Final[float] = struct.unpack("<d", struct.pack("<Q", MISSING_BITS))[0]
"""Fills a cell whose series has no sample in that round. Like the staleness marker it is a
signalling NaN, which arithmetic never yields and number parsers never return."""

_FEWEST_ROWS: Final = 16
_SPARE_SHARE: Final = 32  # an array grows by a 32nd, so at most 3% of it is not in use yet
_HOLES_SHARE: Final = 4  # holes are closed once they are more than a quarter of the rows
_FEWEST_HOLES: Final = 32


def is_marker(values: FloatArray) -> BoolArray:
    """Where a cell holds no sample: it is a staleness marker or missing."""
    marker: BoolArray = (values.view(np.int64) | 1) == MISSING_BITS
    return marker


def width_for(samples: int) -> int:
    """The width of pool for rings of so many samples: a little more, so that pools stay few."""
    step = max(4, 1 << max(samples.bit_length() - 7, 0))
    return -(-samples // step) * step


class Pool:
    """Rows of `width` cells. `owner[row]` is the number of the lane that took the row."""

    def __init__(self, width: int):
        self.width: Final = width
        self.owner: IntArray = np.empty(0, np.int64)
        self._cells: FloatArray = np.empty((0, width))
        self._top = 0
        self._holes: list[int] = []

    @property
    def values(self) -> FloatArray:
        """`[row, slot]`. Hold it no longer than the lock: the array moves when it grows."""
        return self._cells

    @property
    def times(self) -> IntArray:
        """The same cells read as int64; meaningful in rows that hold times."""
        return self._cells.view(np.int64)

    @property
    def rows_in_use(self) -> int:
        return self._top - len(self._holes)

    @property
    def nbytes(self) -> int:
        return self._cells.nbytes + self.owner.nbytes

    def take(self, count: int, owner: int) -> IntArray:
        """`count` rows for a lane, every cell `MISSING`."""
        reused = [self._holes.pop() for _ in range(min(count, len(self._holes)))]
        fresh = count - len(reused)
        if self._top + fresh > len(self._cells):
            needed = self._top + fresh
            self._resize(needed + max(_FEWEST_ROWS, needed // _SPARE_SHARE))
        rows = np.array([*reused, *range(self._top, self._top + fresh)], np.int64)
        self._top += fresh
        self._cells[rows] = MISSING
        self.owner[rows] = owner
        return rows

    def give_back(self, rows: IntArray) -> IntArray | None:
        """Free rows. Where that moved others, the answer maps every old row to its new one."""
        self._holes.extend(rows.tolist())
        holes = len(self._holes)
        if holes < _FEWEST_HOLES or holes * _HOLES_SHARE < self._top:
            return None
        return self._close_holes()

    def _close_holes(self) -> IntArray:
        left = self.rows_in_use
        free = np.zeros(self._top, np.bool_)
        free[self._holes] = True
        holes = np.flatnonzero(free[:left])
        movers = np.flatnonzero(~free[left:]) + left
        for hole, mover in zip(holes.tolist(), movers.tolist(), strict=True):
            self._cells[hole] = self._cells[mover]
        self.owner[holes] = self.owner[movers]
        moved = np.arange(self._top)
        moved[movers] = holes
        self._top = left
        self._holes.clear()
        self._resize(left + max(_FEWEST_ROWS, left // _SPARE_SHARE))
        return moved

    def _resize(self, rows: int) -> None:
        # In place: the allocator extends or remaps the block, so a pool never exists twice.
        # No view outlives the lock that this runs under, hence no reference check.
        self._cells.resize((rows, self.width), refcheck=False)
        self.owner.resize(rows, refcheck=False)

    def block(self, rows: IntArray, slots: IntArray, length: int) -> FloatArray:
        """A copy, `[len(rows), length]`, of the successive cells of each row from its slot on."""
        if not length or not len(rows):
            return np.empty((len(rows), length))
        first = rows * self.width
        wraps = slots + length > self.width
        flat = self._cells.reshape(-1)
        # Every run of `length` neighbours in the pool, as rows of a view: one copy a series.
        runs = np.ndarray(
            (flat.size - length + 1, length), np.float64, flat, strides=flat.strides * 2
        )
        out: FloatArray = runs[np.where(wraps, first, first + slots)]
        if not wraps.any():
            return out
        index = slots[wraps, None] + np.arange(length)
        index -= self.width * (index >= self.width)
        out[wraps] = flat[index + first[wraps, None]]
        return out
