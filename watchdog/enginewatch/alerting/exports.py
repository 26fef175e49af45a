"""What targets export at one time: one truth value a target for each question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from enginewatch.alerting.inputs import key_of, keys_of
from enginewatch.alerting.trace import SCRAPE_SERIES
from enginewatch.model import METRIC_NAME, Matcher, MatchOp, Millis, Target, matches_all
from enginewatch.promql.check import LOOKBACK
from enginewatch.store.base import BoolArray, Instant, Storage


class Exports:
    """Which of the targets answer, and which export a series of a name, at one time."""

    def __init__(
        self, storage: Storage, targets: Sequence[Target], at: Millis, lookback: Millis = LOOKBACK
    ):
        self.targets: Final = tuple(targets)
        self._storage = storage
        self._at = at
        self._lookback = lookback
        self._place = {key_of(target.labels): i for i, target in enumerate(self.targets)}
        self._label_names = frozenset(n for target in self.targets for n in target.labels)
        self._present: dict[str, BoolArray] = {}
        self._passing: dict[tuple[Matcher, ...], BoolArray] = {}

    def present(self, name: str) -> BoolArray:
        """One truth value a target. What the scraper says of targets is always there."""
        if name in SCRAPE_SERIES:
            return np.ones(len(self.targets), dtype=np.bool_)
        if name not in self._present:
            found = self._read(name)
            self._present[name] = self._among_targets(found, found.present)
        return self._present[name]

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

    def answering(self) -> BoolArray:
        up = self._read("up")
        return self._among_targets(up, up.present & (up.values == 1.0))

    def _read(self, name: str) -> Instant:
        matcher = Matcher(METRIC_NAME, MatchOp.EQUAL, name)
        return self._storage.instant((matcher,), self._at, self._lookback)

    def _among_targets(self, found: Instant, chosen: BoolArray) -> BoolArray:
        keys = keys_of(found.layout)
        marked = np.zeros(len(self.targets), dtype=np.bool_)
        live = {keys[row] for row in np.flatnonzero(chosen).tolist()}
        marked[[self._place[key] for key in live if key in self._place]] = True
        return marked
