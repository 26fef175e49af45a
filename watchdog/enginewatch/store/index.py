"""Which series exist, and which of them a selector means.

A selection is found once; after that only series that came since are looked at,
and its `Layout` stays the same object for as long as the set is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from enginewatch.model import METRIC_NAME, Labels, Matcher, MatchOp, matches_all
from enginewatch.store.base import IntArray, Layout
from enginewatch.store.plan import NO_PLAN

# Rules have hundreds of selectors, which select each series a few times over. The query
# API can send any number, each for all series: what was not asked for lately is dropped.
_MOST_SELECTIONS: Final = 4096
_MOST_SELECTED: Final = 1 << 16
_MOST_PER_SERIES: Final = 16


class Selection:
    """The series that some matchers select, in the order of their coming, and how to read them.

    `plan` is good while `planned` is the placement's `moves`.
    """

    __slots__ = (
        "_births",
        "_seen",
        "_stamp",
        "layout",
        "matchers",
        "name",
        "plan",
        "planned",
        "series",
    )

    def __init__(self, matchers: tuple[Matcher, ...]):
        named = [m for m in matchers if m.name == METRIC_NAME and m.op is MatchOp.EQUAL]
        self.matchers: Final = matchers
        self.name: Final = named[0].value if named else ""
        self.layout = Layout(())
        self.series: IntArray = np.empty(0, np.int64)
        self.plan = NO_PLAN
        self.planned = -1
        self._births: IntArray = np.empty(0, np.int64)
        self._seen = 0
        self._stamp = 0


class Index:
    """Numbers for label sets, and the sets by metric name.

    A number is used again after its series is gone; its birth, a count that only
    rises, tells the two apart.
    """

    def __init__(self) -> None:
        self._numbers: dict[Labels, int] = {}
        self._labels: list[Labels | None] = []
        self._births: IntArray = np.zeros(0, np.int64)
        self._unused: list[int] = []
        self._by_name: dict[str, dict[int, None]] = {}
        self._stamps: dict[str, int] = {}
        self._stamp = 0
        self.names_changed = 0
        """Rises when a metric name comes or goes."""
        self._selections: dict[tuple[Matcher, ...], Selection] = {}
        self._selected = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, labels: Labels) -> int:
        """The number of a series, which begins to exist if it did not."""
        number = self._numbers.get(labels)
        if number is not None:
            return number
        if self._unused:
            number = self._unused.pop()
            self._labels[number] = labels
        else:
            number = len(self._labels)
            self._labels.append(labels)
            if number >= len(self._births):
                self._births.resize(number + max(64, number // 8), refcheck=False)
        self._numbers[labels] = number
        peers = self._by_name.get(labels.name)
        if peers is None:
            peers = self._by_name[labels.name] = {}
            self.names_changed += 1
        peers[number] = None
        self._births[number] = self._changed(labels.name)
        return number

    def discard(self, series: IntArray) -> None:
        """These series are gone."""
        for number in series.tolist():
            labels = self._labels[number]
            assert labels is not None
            self._labels[number] = None
            self._births[number] = 0
            self._unused.append(number)
            del self._numbers[labels]
            self._changed(labels.name)
            peers = self._by_name[labels.name]
            del peers[number]
            if not peers:
                del self._by_name[labels.name], self._stamps[labels.name]
                self.names_changed += 1

    def shared(self, labels: Labels) -> Labels:
        """The set that is kept where one is equal to `labels`, else one fit to be kept."""
        number = self._numbers.get(labels)
        kept = None if number is None else self._labels[number]
        return kept or labels.interned()

    def holds(self, name: str) -> bool:
        """Whether there is a series of this metric name. Needs no lock."""
        return name in self._by_name

    def select(self, matchers: Sequence[Matcher]) -> Selection:
        key = tuple(matchers)
        selection = self._selections.pop(key, None)
        if selection is None:
            selection = Selection(key)
        self._selections[key] = selection  # the least recently used is always the first
        self._refresh(selection)
        self._drop_selections()
        return selection

    def _drop_selections(self) -> None:
        most = _MOST_SELECTED + _MOST_PER_SERIES * len(self)
        while len(self._selections) > _MOST_SELECTIONS or (
            self._selected > most and len(self._selections) > 1
        ):
            dropped = self._selections.pop(next(iter(self._selections)))
            self._selected -= len(dropped.series)

    def _changed(self, name: str) -> int:
        self._stamp += 1
        self._stamps[name] = self._stamp
        return self._stamp

    def _refresh(self, selection: Selection) -> None:
        """Bring a selection up to date: drop what is gone, look at what came."""
        name = selection.name
        stamp = self._stamps.get(name, 0) if name else self._stamp
        if stamp == selection._stamp:
            return
        alive = self._births[selection.series] == selection._births
        came = self._came_since(selection)
        selection._stamp, selection._seen = stamp, self._stamp
        if came or not alive.all():
            series = np.append(selection.series[alive], np.array(came, np.int64))
            self._selected += len(series) - len(selection.series)
            selection.series, selection._births = series, self._births[series]
            selection.planned = -1
            selection.layout = Layout(self._sets(series))

    def _came_since(self, selection: Selection) -> list[int]:
        name = selection.name
        peers = self._by_name.get(name, {}) if name else self._numbers.values()
        came = []
        for number in reversed(peers):
            if self._births[number] <= selection._seen:
                break
            labels = self._labels[number]
            if labels is not None and matches_all(labels, selection.matchers):
                came.append(number)
        return came[::-1]

    def _sets(self, series: IntArray) -> list[Labels]:
        return [labels for n in series.tolist() if (labels := self._labels[n]) is not None]
