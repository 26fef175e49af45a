"""A source: one writer of rounds, such as a scraped target, a rule or a probe.

A round is all that a source has to say at one time. A series that was in the
previous round and is not in this one has ended, and gets a staleness marker.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, NamedTuple

import numpy as np

from enginewatch.model import STALE_NAN, Labels, Millis
from enginewatch.store.base import BoolArray, FloatArray, IntArray
from enginewatch.store.core import Core, Keep, Refusal
from enginewatch.store.lane import Lane
from enginewatch.store.pool import MISSING, is_marker
from enginewatch.store.rings import LONG_AGO
from enginewatch.store.roster import Roster

_NO_REFS: Final[IntArray] = np.empty(0, np.int64)
_NO_VALUES: Final[FloatArray] = np.empty(0)
_SWEEPS_A_RETENTION: Final = 4
_UNWANTED: Final = -1
_NOTHING_HELD: Final[Millis] = 60_000
"""Stands for a retention where there is none: sources of rules that never had a result."""


class AppendResult(NamedTuple):
    """What became of a round: samples stored, series that ended, samples refused by reason."""

    stored: int = 0
    ended: int = 0
    late: int = 0
    duplicate: int = 0
    retired: int = 0
    removed: int = 0


class _Steady(NamedTuple):
    """The newest round, if all went well, to write one like it without looking at each ref.

    `cells` is the round as lanes are given it, good for all rounds of these refs
    and this epoch once `cells[members]` are set. A round of nothing after a round of
    nothing is not written at all.
    """

    epoch: int
    refs: bytes
    members: IntArray
    cells: FloatArray


class Source:
    """Made by `Head.source()`. Its methods may be called from any thread.

    Rounds come in order of time. One that is not after the newest is late, and
    refused. But where it is earlier by more than the head's `step_tolerance`, the
    clock was set back: then the new time is believed and all later rounds are
    dropped, since to refuse rounds until the clock has caught up would be to go
    blind, and to keep them would let them be read again, later, as if new.
    """

    def __init__(self, key: Hashable, core: Core):
        self.key: Final = key
        self._core: Final = core
        self._roster: Final = Roster()
        self._lanes: dict[Millis, Lane] = {}
        self._last: Millis = LONG_AGO
        self._sweep_at: Millis = LONG_AGO
        self._steady: _Steady | None = None
        self._removed = False

    @property
    def epoch(self) -> int:
        """Refs, and answers of None, hold for as long as this stays the same.

        It rises when series are forgotten and when the head is reconfigured; then
        the caller drops what it kept of `resolve()`'s answers.
        """
        return self._roster.epoch

    def resolve(self, labels: Labels) -> int | None:
        """The ref by which to append to a series; None when its metric is not wanted.

        The series exists for readers from its first sample on.
        """
        with self._core.lock:
            ref = self._roster.ref(labels)
            if ref is not None:
                return ref
            retention = self._core.keep(labels.name)
            if retention is None:
                return None
            return self._roster.enrol(self._core.index.shared(labels), retention, self._last)

    def append(self, at: Millis, refs: IntArray, values: FloatArray) -> AppendResult:
        """Write one round: `values[i]` is the sample of `refs[i]`.

        Of two samples of a series the first counts. A staleness marker among the
        values ends its series. Raises ValueError when the arrays differ in length.
        """
        if len(refs) != len(values):
            raise ValueError(f"{len(refs)} refs for {len(values)} values")
        with self._core.lock:
            if self._removed:
                return self._refuse(AppendResult(removed=len(refs)))
            if not self._admit(at):
                return self._refuse(AppendResult(late=len(refs)))
            result = self._write_like_the_last(at, refs, values)
            if result is None:
                result = self._refuse(self._write(at, refs, values))
            if at >= self._sweep_at:
                self.sweep(at)
            self._core.tick(at)
            return result

    def stale(self, at: Millis) -> AppendResult:
        """A round that failed: all series end."""
        return self.append(at, _NO_REFS, _NO_VALUES)

    def remove(self, at: Millis | None = None) -> None:
        """The source is gone: its series end, and are forgotten when their retention is over.

        They end at `at`, or right after the newest round when that is None or late.
        `Head.source()` of the same key brings the source back.
        """
        with self._core.lock:
            if self._removed:
                return
            if self._last != LONG_AGO:
                if at is None or not self._admit(at):
                    at = self._last + 1
                self._write(at, _NO_REFS, _NO_VALUES)
            self._removed = True
            self._core.removed[self.key] = self

    # What follows is called with the lock held.

    def revive(self) -> None:
        """Take rounds again after `remove()`."""
        self._removed = False
        self._core.removed.pop(self.key, None)

    def is_empty(self) -> bool:
        return not len(self._roster)

    @property
    def cell_count(self) -> int:
        """Samples held, with the cells of rounds that a series was not in."""
        return sum(len(lane) * lane.count for lane in self._lanes.values())

    def step_back(self, now: Millis) -> None:
        """Drop what was written at `now` and after."""
        roster = self._roster
        self._steady = None
        for lane in self._lanes.values():
            lane.cut(now)
            roster.alive[lane.members] = lane.alive()
        np.minimum(roster.ended, now, out=roster.ended)
        self._sweep_at = now
        if self._removed and self._last >= now:
            self._last = now
            self._write(now, _NO_REFS, _NO_VALUES)

    def sweep(self, now: Millis) -> None:
        """Forget series that ended longer ago than they are kept, and spare memory."""
        self._sweep_at = now + max(
            min(self._lanes, default=_NOTHING_HELD) // _SWEEPS_A_RETENTION, 1
        )
        roster = self._roster
        for retention, lane in list(self._lanes.items()):
            members = lane.members
            gone = ~roster.alive[members] & (roster.ended[members] <= now - retention)
            self._forget(lane, gone)
            if len(lane):
                lane.fit(now)
        roster.retire([i for i, kept in roster.waiting.items() if roster.ended[i] <= now - kept])
        self._close_empty_lanes()

    def reconfigure(self, keep: Keep) -> None:
        """Sort the series into lanes anew, with their samples."""
        roster = self._roster
        roster.epoch += 1
        for index in list(roster.waiting):
            retention = keep(roster.labels(index).name)
            if retention is None:
                roster.retire([index])
            else:
                roster.waiting[index] = retention
        wanted = np.full(roster.size, _UNWANTED)
        for lane in self._lanes.values():
            for index in lane.members.tolist():
                retention = keep(roster.labels(index).name)
                wanted[index] = _UNWANTED if retention is None else retention
            self._forget(lane, wanted[lane.members] == _UNWANTED)
        self._rearrange(wanted)

    def _rearrange(self, wanted: IntArray) -> None:
        """Give every series a lane of the retention wanted, by its index."""
        lanes = list(self._lanes.values())
        history = max((lane.times() for lane in lanes), key=len, default=_NO_REFS)
        arrivals: set[int] = set()
        for lane in lanes:
            arrivals.update(set(wanted[lane.members].tolist()) - {lane.retention})
        fresh = {}
        for retention in arrivals:
            times = history[history > self._last - retention]
            lane = fresh[retention] = Lane(self._core.placement, retention, samples=len(times) + 1)
            lane.begin(times)
            for old in lanes:
                chosen = wanted[old.members] == retention
                if chosen.any():
                    lane.adopt(old, chosen)
        self._close_empty_lanes()
        self._lanes.update(fresh)

    def _admit(self, at: Millis) -> bool:
        """Whether a round of this time may be written; a step of the clock is followed."""
        if at <= self._last:
            if self._last - at <= self._core.step_tolerance:
                return False
            self.step_back(at)
            self._core.step_back(at)
        self._last = at
        return True

    def _write_like_the_last(
        self, at: Millis, refs: IntArray, values: FloatArray
    ) -> AppendResult | None:
        """Write a round of the very refs of the one before; None where this is not one."""
        steady = self._steady
        if (
            steady is None
            or steady.epoch != self._roster.epoch
            or steady.refs != refs.tobytes()
            or (np.isnan(values).any() and is_marker(values).any())
        ):
            return None
        if not len(refs):
            return AppendResult()
        steady.cells[steady.members] = values
        for lane in self._lanes.values():
            lane.write(at, steady.cells)
        self._core.appended += len(values)
        return AppendResult(stored=len(values))

    def _write(self, at: Millis, refs: IntArray, values: FloatArray) -> AppendResult:
        roster = self._roster
        index, good = roster.indices(refs)
        if good is not None:
            index, values = index[good], values[good]
        present = np.zeros(roster.size, np.bool_)
        present[index] = True
        given = len(index)
        if np.count_nonzero(present) < given:
            index, first = np.unique(index, return_index=True)
            values = values[first]
        cells = np.full(roster.size, MISSING)
        cells[index] = values
        alive = present
        if np.isnan(values).any():
            alive = present & ~is_marker(cells)
        ended = roster.alive & ~alive
        cells[ended] = STALE_NAN
        stored, markers = int(np.count_nonzero(alive)), int(np.count_nonzero(ended))
        if stored or markers:
            self._seat(at, alive)
            for lane in self._lanes.values():
                lane.write(at, cells)
            roster.ended[ended] = at
            roster.alive[:] = alive
        self._steady = None
        if stored == len(refs) and (stored or not markers):
            cells[ended] = MISSING
            self._steady = _Steady(roster.epoch, refs.tobytes(), index, cells)
        self._core.appended += stored
        return AppendResult(
            stored, markers, duplicate=given - len(index), retired=len(refs) - given
        )

    def _seat(self, at: Millis, alive: BoolArray) -> None:
        """Give a place to series that have their first sample in this round."""
        waiting, index = self._roster.waiting, self._core.index
        arrivals: dict[Millis, list[int]] = {}
        for member in [member for member in waiting if alive[member]]:
            arrivals.setdefault(waiting.pop(member), []).append(member)
        for member in waiting:
            if self._roster.ended[member] == LONG_AGO:  # resolved before the first round ever
                self._roster.ended[member] = at
        for retention, members in arrivals.items():
            lane = self._lanes.get(retention)
            if lane is None:
                lane = self._lanes[retention] = Lane(self._core.placement, retention)
            series = [index.add(self._roster.labels(member)) for member in members]
            lane.seat(np.array(members, np.int64), np.array(series, np.int64))

    def _forget(self, lane: Lane, gone: BoolArray) -> None:
        if gone.any():
            members = lane.members[gone].tolist()
            self._core.index.discard(lane.unseat(gone))
            self._roster.retire(members)

    def _close_empty_lanes(self) -> None:
        for retention, lane in list(self._lanes.items()):
            if not len(lane):
                lane.close()
                del self._lanes[retention]

    def _refuse(self, result: AppendResult) -> AppendResult:
        """Count what was refused."""
        refused = self._core.refused
        refused[Refusal.LATE] += result.late
        refused[Refusal.DUPLICATE] += result.duplicate
        refused[Refusal.RETIRED] += result.retired
        refused[Refusal.REMOVED] += result.removed
        return result
