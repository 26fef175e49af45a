"""What targets export at one time: one truth value a target for each question."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np

from enginewatch.alerting.inputs import key_of, keys_of
from enginewatch.alerting.state import Source
from enginewatch.alerting.trace import SCRAPE_SERIES
from enginewatch.model import METRIC_NAME, Matcher, MatchOp, Millis, Target, matches_all
from enginewatch.promql.check import LOOKBACK
from enginewatch.store.base import BoolArray, Instant, IntArray, Layout, Storage


class Roll:
    """The targets of one configuration in their places, and what their labels alone tell.

    That stays the same from one evaluation to the next, so it is worked out once.
    """

    def __init__(self, targets: Sequence[Target]):
        self.targets: Final = tuple(targets)
        self.keys: Final = tuple(key_of(target.labels) for target in self.targets)
        self._place: Final[dict[Source, int]] = {key: i for i, key in enumerate(self.keys)}
        self._label_names: Final = frozenset(n for target in self.targets for n in target.labels)
        self._passing: dict[tuple[Matcher, ...], BoolArray] = {}
        self._places: WeakKeyDictionary[Layout, IntArray] = WeakKeyDictionary()

    def passing(self, matchers: tuple[Matcher, ...]) -> BoolArray:
        """The targets whose own labels the matchers do not rule out."""
        telling = tuple(m for m in matchers if m.name in self._label_names)
        if telling not in self._passing:
            passes = [
                matches_all(target.labels, (m for m in telling if m.name in target.labels))
                for target in self.targets
            ]
            self._passing[telling] = np.array(passes, dtype=np.bool_)
        return self._passing[telling]

    def having(self, layout: Layout, rows: BoolArray) -> BoolArray:
        """The targets that at least one of these rows is of."""
        places = self._places.get(layout)
        if places is None:
            found = [self._place.get(key, -1) for key in keys_of(layout)]
            places = self._places[layout] = np.array(found, dtype=np.int64)
        marked = np.zeros(len(self.targets) + 1, dtype=np.bool_)
        marked[places[rows]] = True  # the last one is for rows of no target
        return marked[:-1]


class Exports:
    """Which of the targets answer, and which export a series of a name, at one time."""

    def __init__(self, storage: Storage, roll: Roll, at: Millis, lookback: Millis = LOOKBACK):
        self.roll: Final = roll
        self._storage = storage
        self._at = at
        self._lookback = lookback
        self._present: dict[str, BoolArray] = {}

    @property
    def targets(self) -> tuple[Target, ...]:
        return self.roll.targets

    def present(self, name: str) -> BoolArray:
        """One truth value a target. What the scraper says of targets is always there."""
        if name in SCRAPE_SERIES:
            return np.ones(len(self.targets), dtype=np.bool_)
        if name not in self._present:
            self._present[name] = self._read_presence(name)
        return self._present[name]

    def passing(self, matchers: tuple[Matcher, ...]) -> BoolArray:
        return self.roll.passing(matchers)

    def answering(self) -> BoolArray:
        up = self._read("up")
        return self.roll.having(up.layout, up.present & (up.values == 1.0))

    def picture(self, names: Iterable[str]) -> bytes:
        """Who answers, and who exports which of these names; equal where all of that is."""
        return np.packbits([self.answering(), *map(self.present, names)]).tobytes()

    def _read_presence(self, name: str) -> BoolArray:
        if not self._storage.exists(name):
            return np.zeros(len(self.targets), dtype=np.bool_)
        found = self._read(name)
        return self.roll.having(found.layout, found.present)

    def _read(self, name: str) -> Instant:
        matcher = Matcher(METRIC_NAME, MatchOp.EQUAL, name)
        return self._storage.instant((matcher,), self._at, self._lookback)
