"""Whether engines get on by themselves: what their pages have shown to move, and since when not.

Which series only a live step moves is for the engines' rules to say: those that
`engine:progress_signals:window_count` is recorded from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np

from enginewatch.alerting.rules import RecordingRule, RuleFile
from enginewatch.model import METRIC_NAME, Labels, Matcher, MatchOp, Millis
from enginewatch.promql.check import selectors
from enginewatch.store.base import FloatArray, Instant, Layout, Storage

RUNNING: Final = "engine:requests_running:sum"
SIGNALS: Final = "engine:progress_signals:window_count"

_FRESH: Final[Millis] = 60_000
"""How old a page may be; one that is older says nothing about now."""

Key = tuple[str, str]
"""A target's instance and job."""


class Seen(NamedTuple):
    """What the pages of a target show: when it last moved (at a scrape, compared with the one
    before), the newest scrape, and whether it holds requests."""

    moved: Millis
    newest: Millis
    busy: bool

    @property
    def age(self) -> Millis:
        """For how long nothing has been seen to move."""
        return max(0, self.newest - self.moved)


class Progress:
    """Looks at the store again and again, and compares. `rules` are asked for at each look: those
    that are in force then say what is looked at."""

    def __init__(self, rules: Callable[[], Sequence[RuleFile]], storage: Storage):
        self._storage: Final = storage
        self._rules: Final = rules
        self._files: Sequence[RuleFile] | None = None
        self._signals: tuple[_Signal, ...] = ()
        self._moved: dict[Key, Millis] = {}

    def look(self, now: Millis) -> dict[Key, Seen]:
        """By target, as far as its engine has such series."""
        self._follow(self._rules())
        newest: dict[Key, Millis] = {}
        moved: dict[Key, Millis] = {}
        for signal in self._signals:
            found = self._storage.instant(signal.matchers, now, _FRESH)
            signal.compare(found, newest, moved)
        busy = self._busy(now)
        # The first page that is seen of a target counts as movement: nothing is known before it.
        self._moved = {key: moved.get(key, self._moved.get(key, at)) for key, at in newest.items()}
        return {key: Seen(self._moved[key], at, key in busy) for key, at in newest.items()}

    def _follow(self, files: Sequence[RuleFile]) -> None:
        if files is not self._files:
            self._files = files
            known = {signal.matchers: signal for signal in self._signals}
            self._signals = tuple(known.get(m) or _Signal(m) for m in _selected(files))

    def _busy(self, now: Millis) -> set[Key]:
        found = self._storage.instant(_named(RUNNING), now, _FRESH)
        rows = np.flatnonzero(found.present & (found.values > 0)).tolist()
        keys = _keys(found.layout)
        return {keys[row] for row in rows}


class _Signal:
    """One selector of signals, and the values that it last had."""

    def __init__(self, matchers: Sequence[Matcher]):
        self.matchers: Final = tuple(matchers)
        self._layout: Layout | None = None
        self._values: FloatArray = np.empty(0)

    def compare(self, found: Instant, newest: dict[Key, Millis], moved: dict[Key, Millis]) -> None:
        """Note each target's newest sample, and its newest that differs from the one before."""
        keys = _keys(found.layout)
        values, before = found.values, self._before(found.layout)
        # NaN before: a series that is new, which moves nothing. NaN now: no number to compare.
        differs = found.present & (values != before) & ~np.isnan(before) & ~np.isnan(values)
        for row in np.flatnonzero(found.present).tolist():
            newest[keys[row]] = max(newest.get(keys[row], 0), int(found.times[row]))
        for row in np.flatnonzero(differs).tolist():
            moved[keys[row]] = max(moved.get(keys[row], 0), int(found.times[row]))
        self._layout, self._values = found.layout, np.where(found.present, values, np.nan)

    def _before(self, layout: Layout) -> FloatArray:
        if layout is self._layout or self._layout is None:
            return self._values if self._layout is not None else np.full(len(layout), np.nan)
        known = dict(zip(self._layout.labels, self._values.tolist(), strict=True))
        return np.array([known.get(labels, np.nan) for labels in layout.labels], np.float64)


def _selected(files: Iterable[RuleFile]) -> list[tuple[Matcher, ...]]:
    """What the engines' rules read to tell whether they get on, each selector once."""
    rules = (rule for file in files for group in file.groups for rule in group.rules)
    recorders = (r for r in rules if isinstance(r, RecordingRule) and r.name == SIGNALS)
    found = (tuple(read.selector.matchers) for rule in recorders for read in selectors(rule.expr))
    return list(dict.fromkeys(found))


def _named(name: str) -> tuple[Matcher]:
    return (Matcher(METRIC_NAME, MatchOp.EQUAL, name),)


def _keys(layout: Layout) -> tuple[Key, ...]:
    return layout.derive("probed targets", lambda: tuple(map(key_of, layout.labels)))


def key_of(labels: Labels) -> Key:
    return labels.get("instance", ""), labels.get("job", "")
