"""Writing to one source of the store, round after round, without looking up what is known."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final, NamedTuple

import numpy as np

from enginewatch.model import Labels, Millis, Sample
from enginewatch.store.base import FloatArray, IntArray
from enginewatch.store.head import Head

_MOST_KEPT: Final = 50_000
"""Labels whose place in the store a writer remembers; beyond that it begins anew."""


class Columns(NamedTuple):
    """`refs[i]` is where the series number `picks[i]` goes; good for one epoch of the source."""

    epoch: int
    picks: IntArray
    refs: IntArray


class Rounds:
    """Writes the rounds of one source: all that it has to say at one time.

    A series that a round is without has ended. To be used from one thread at a time.
    """

    def __init__(self, head: Head, key: Hashable):
        self._source: Final = head.source(key)
        self._epoch: int | None = None
        self._refs: dict[Labels, int | None] = {}

    def write(self, at: Millis, samples: Iterable[Sample]) -> None:
        found = [(ref, s.value) for s in samples if (ref := self._ref(s.labels)) is not None]
        refs = np.array([ref for ref, _ in found], np.int64)
        self._source.append(at, refs, np.array([value for _, value in found], np.float64))

    def columns(self, series: Iterable[Labels]) -> Columns:
        """Where these series go, for a writer whose rounds are all of the same ones."""
        refs = dict(enumerate(map(self._ref, series)))
        kept = {place: ref for place, ref in refs.items() if ref is not None}
        return Columns(
            self._source.epoch,
            np.fromiter(kept.keys(), np.int64, len(kept)),
            np.fromiter(kept.values(), np.int64, len(kept)),
        )

    def write_columns(self, at: Millis, columns: Columns, values: FloatArray) -> bool:
        """Write `values[i]` to the series `i`; False, and nothing, where `columns` is outdated."""
        if columns.epoch != self._source.epoch:
            return False
        self._source.append(at, columns.refs, values[columns.picks])
        return True

    def end(self, at: Millis) -> None:
        """There is nothing to say any more: all series end."""
        self._source.remove(at)

    def _ref(self, labels: Labels) -> int | None:
        if self._epoch != self._source.epoch or len(self._refs) > _MOST_KEPT:
            self._epoch = self._source.epoch
            self._refs.clear()
        if labels not in self._refs:
            self._refs[labels] = self._source.resolve(labels)
        return self._refs[labels]


class Writers:
    """`base.Write` on a head: the rounds of any number of sources, each by its key."""

    def __init__(self, head: Head):
        self._head: Final = head
        self._rounds: Final[dict[Hashable, Rounds]] = {}

    def __call__(self, key: Hashable, at: Millis, samples: Iterable[Sample]) -> None:
        if key not in self._rounds:
            self._rounds[key] = Rounds(self._head, key)
        self._rounds[key].write(at, samples)
