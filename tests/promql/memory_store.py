"""A plain storage to test against: sorted samples for each series, nothing clever."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from enginewatch.model import (
    STALE_BITS,
    Labels,
    Matcher,
    Metadata,
    Millis,
    matches_all,
)
from enginewatch.store.base import FloatArray, Instant, IntArray, Layout, Window


class MemoryStore:
    """`store.base.Storage` over a dictionary. Layouts last until a series is added.

    `rubbish` stands where there is no sample: nothing may depend on it.
    """

    def __init__(self, rubbish: float = 7e77) -> None:
        self._rubbish = rubbish
        self._samples: dict[Labels, tuple[IntArray, FloatArray]] = {}
        self._layouts: dict[tuple[Matcher, ...], Layout] = {}

    def add(self, labels: Labels, samples: Iterable[tuple[Millis, float]]) -> None:
        """Samples in any order; a later one of the same time replaces the earlier."""
        if labels not in self._samples:
            self._layouts.clear()
            self._samples[labels] = (np.empty(0, dtype=np.int64), np.empty(0))
        times, values = self._samples[labels]
        merged = dict(zip(times.tolist(), values, strict=True)) | dict(samples)
        order = sorted(merged)
        # Of floats that come as array elements numpy keeps the bits, which tell a stale marker.
        self._samples[labels] = (
            np.array(order, dtype=np.int64),
            np.array([merged[at] for at in order], dtype=np.float64),
        )

    def all(self) -> Iterator[tuple[Labels, IntArray, FloatArray]]:
        for labels, (times, values) in self._samples.items():
            yield labels, times, values

    def _layout(self, matchers: Sequence[Matcher]) -> Layout:
        key = tuple(matchers)
        if key not in self._layouts:
            found = [labels for labels in self._samples if matches_all(labels, matchers)]
            self._layouts[key] = Layout(sorted(found))
        return self._layouts[key]

    def _between(
        self, labels: Labels, after: Millis, upto: Millis, *, stale: bool
    ) -> tuple[IntArray, FloatArray]:
        times, values = self._samples[labels]
        low, high = np.searchsorted(times, (after, upto), side="right")
        times, values = times[low:high], values[low:high]
        fresh = values.view(np.int64) != STALE_BITS
        return (times, values) if stale or fresh.all() else (times[fresh], values[fresh])

    def instant(self, matchers: Sequence[Matcher], at: Millis, lookback: Millis) -> Instant:
        layout = self._layout(matchers)
        values, times = np.full(len(layout), self._rubbish), np.zeros(len(layout), dtype=np.int64)
        present = np.zeros(len(layout), dtype=np.bool_)
        for row, labels in enumerate(layout.labels):
            found = self._between(labels, at - lookback, at, stale=True)
            if len(found[0]):
                times[row], values[row] = found[0][-1], found[1][-1]
                present[row] = values[row : row + 1].view(np.int64)[0] != STALE_BITS
        return Instant(layout, values, times, present)

    def window(self, matchers: Sequence[Matcher], after: Millis, upto: Millis) -> Window:
        layout = self._layout(matchers)
        rows = [self._between(labels, after, upto, stale=False) for labels in layout.labels]
        counts = np.array([len(times) for times, _ in rows], dtype=np.int64)
        shape = (len(rows), int(counts.max(initial=0)))
        values, times = np.full(shape, self._rubbish), np.full(shape, -7, dtype=np.int64)
        for row, (stamps, numbers) in enumerate(rows):
            times[row, : counts[row]], values[row, : counts[row]] = stamps, numbers
        return Window(layout, values, times, counts)

    def series(
        self, matchers: Sequence[Matcher], after: Millis | None = None, upto: Millis | None = None
    ) -> Sequence[Labels]:
        found = self._layout(matchers).labels
        if after is None and upto is None:
            return found
        low, high = -(2**62) if after is None else after, 2**62 if upto is None else upto
        return [labels for labels in found if len(self._between(labels, low, high, stale=True)[0])]

    def exists(self, name: str) -> bool:
        return any(labels.name == name for labels in self._samples)

    @property
    def names_changed(self) -> int:
        return len(self._samples)

    def metadata(self) -> dict[str, Metadata]:
        return {}
