"""A plain storage to test against: a sorted list of samples for each series, nothing clever."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

import numpy as np

from enginewatch.model import Labels, Matcher, Metadata, Millis, is_stale, matches_all
from enginewatch.store.base import Instant, Layout, Window


class MemoryStore:
    """`store.base.Storage` over a dictionary. Layouts last until a series is added."""

    def __init__(self) -> None:
        self._samples: dict[Labels, list[tuple[Millis, float]]] = {}
        self._layouts: dict[tuple[Matcher, ...], Layout] = {}

    def add(self, labels: Labels, samples: Iterable[tuple[Millis, float]]) -> None:
        """Samples in any order; a later one of the same time replaces the earlier."""
        if labels not in self._samples:
            self._samples[labels] = []
            self._layouts.clear()
        kept = self._samples[labels]
        for at, value in samples:
            place = bisect_right(kept, at, key=lambda sample: sample[0])
            if place and kept[place - 1][0] == at:
                kept[place - 1] = (at, value)
            else:
                kept.insert(place, (at, value))

    def clear(self) -> None:
        self._samples.clear()
        self._layouts.clear()

    def all(self) -> Iterable[tuple[Labels, Sequence[tuple[Millis, float]]]]:
        return self._samples.items()

    def _layout(self, matchers: Sequence[Matcher]) -> Layout:
        key = tuple(matchers)
        if key not in self._layouts:
            found = [labels for labels in self._samples if matches_all(labels, matchers)]
            self._layouts[key] = Layout(sorted(found))
        return self._layouts[key]

    def _between(self, labels: Labels, after: Millis, upto: Millis) -> list[tuple[Millis, float]]:
        kept = self._samples[labels]
        low, high = (bisect_right(kept, at, key=lambda sample: sample[0]) for at in (after, upto))
        return kept[low:high]

    def instant(self, matchers: Sequence[Matcher], at: Millis, lookback: Millis) -> Instant:
        layout = self._layout(matchers)
        newest = [self._between(labels, at - lookback, at)[-1:] for labels in layout.labels]
        times = np.array([found[0][0] if found else 0 for found in newest], dtype=np.int64)
        values = np.array([found[0][1] if found else 7e77 for found in newest], dtype=np.float64)
        there = [bool(found) and not is_stale(found[0][1]) for found in newest]
        return Instant(layout, values, times, np.array(there, dtype=np.bool_))

    def window(self, matchers: Sequence[Matcher], after: Millis, upto: Millis) -> Window:
        layout = self._layout(matchers)
        rows = [
            [sample for sample in self._between(labels, after, upto) if not is_stale(sample[1])]
            for labels in layout.labels
        ]
        shape = (len(rows), max(map(len, rows), default=0))
        values, times = np.full(shape, 7e77), np.full(shape, -7, dtype=np.int64)
        for row, samples in enumerate(rows):
            for column, (at, value) in enumerate(samples):
                times[row, column], values[row, column] = at, value
        counts = np.array([len(samples) for samples in rows], dtype=np.int64)
        return Window(layout, values, times, counts)

    def series(
        self, matchers: Sequence[Matcher], after: Millis | None = None, upto: Millis | None = None
    ) -> Sequence[Labels]:
        found = self._layout(matchers).labels
        if after is None and upto is None:
            return found
        low, high = -(2**62) if after is None else after, 2**62 if upto is None else upto
        return [labels for labels in found if self._between(labels, low, high)]

    def metadata(self) -> dict[str, Metadata]:
        return {}
