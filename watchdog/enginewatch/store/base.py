"""The contract between storage and the PromQL evaluator.

The evaluator is vectorised over series, so storage answers with columns. A
`Layout` is the identity of a set of series; as long as that set does not change,
a store returns the same `Layout` object, and everything derived from the labels
(groups of an aggregation, partners of a join) is computed once and kept on it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from enginewatch.model import Labels, Matcher, Metadata, Millis

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

T = TypeVar("T")


MAX_DERIVED: Final = 128
"""Values kept on a layout: far more than rules need, and a bound on what queries can pile up."""


class Layout:
    """An ordered set of series, compared by identity.

    `derive(key, build)` memoises a value computed from the labels alone. The
    cache lives and dies with the layout.
    """

    __slots__ = ("__weakref__", "_derived", "_labels")

    def __init__(self, labels: Sequence[Labels]):
        self._labels: tuple[Labels, ...] = tuple(labels)
        self._derived: dict[Hashable, object] = {}

    @property
    def labels(self) -> tuple[Labels, ...]:
        return self._labels

    def __len__(self) -> int:
        return len(self._labels)

    def derive(self, key: Hashable, build: Callable[[], T]) -> T:
        try:
            return self._derived[key]  # type: ignore[return-value]
        except KeyError:
            value = build()
            if len(self._derived) >= MAX_DERIVED:
                self._derived.clear()
            self._derived[key] = value
            return value


class Instant(NamedTuple):
    """The newest sample of each series within the lookback: arrays of length n = len(layout).

    Where `present` is False the other arrays hold rubbish: the series has no
    sample in reach, or its newest one is a staleness marker.
    """

    layout: Layout
    values: FloatArray
    times: IntArray
    present: BoolArray


class Window(NamedTuple):
    """The samples of each series in a half-open range, packed to the left.

    `values` and `times` have shape (n, w); row i holds `counts[i]` samples in
    order of time, staleness markers already dropped, and rubbish after them.
    """

    layout: Layout
    values: FloatArray
    times: IntArray
    counts: IntArray


class Storage(Protocol):
    """What the evaluator and the query API read. Reads are consistent and brief."""

    def instant(self, matchers: Sequence[Matcher], at: Millis, lookback: Millis) -> Instant:
        """Newest samples with `at - lookback < time <= at`."""
        ...

    def window(self, matchers: Sequence[Matcher], after: Millis, upto: Millis) -> Window:
        """Samples with `after < time <= upto`."""
        ...

    def series(
        self, matchers: Sequence[Matcher], after: Millis | None = None, upto: Millis | None = None
    ) -> Sequence[Labels]:
        """Series that match; with bounds, only those with a sample in `after < time <= upto`."""
        ...

    def exists(self, name: str) -> bool:
        """False only if no series of this metric name can be selected. Costs a look-up."""
        ...

    @property
    def names_changed(self) -> int:
        """A count that rises whenever `exists` may answer otherwise than before."""
        ...

    def metadata(self) -> dict[str, Metadata]:
        """By metric family name, as last seen on any page."""
        ...
