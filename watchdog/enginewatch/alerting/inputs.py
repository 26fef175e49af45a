"""Whether an alert that is no longer in the result is false, or can't be seen.

While an alert is active, the targets that speak for it are noted: those its
labels point at which have what its expression needs (`alerting.trace`). Once it
is absent, it counts as false only if it could have been seen on every one of them:

- the target was scraped well, without a gap, for the settling time, and what the
  expression needs was on every one of those pages. The settling time is twice the
  interval of the slowest rule group involved, so that each has run on whole data;
- a target that left the configuration stops counting after `unknown_retention`;
  when none is left, the inputs are gone on purpose;
- `up` and its like come from the scraper itself and are known while they are
  there, so that an alert on `up == 0` needs nothing of a dead target.

It need not be the same series as before: an engine that comes back as another
version, under new names that the rules know, can be judged again.

Everything is read from the store at the time of the evaluation. Nothing is
remembered but when a target was first seen to be out of the configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from enginewatch.alerting.needs import Need, met, series_of
from enginewatch.alerting.rules import Rule
from enginewatch.alerting.state import Inputs, Source, Tracked
from enginewatch.alerting.trace import SCRAPE_SERIES, Tracer
from enginewatch.model import (
    EMPTY_LABELS,
    METRIC_NAME,
    Labels,
    Matcher,
    MatchOp,
    Millis,
    Target,
    matches_all,
)
from enginewatch.promql.ast import Expr
from enginewatch.promql.check import LOOKBACK, names, selectors
from enginewatch.promql.layouts import derive_pair
from enginewatch.store.base import BoolArray, IntArray, Layout, Storage

UNKNOWN_RETENTION: Final[Millis] = 5 * 60_000
"""How long an alert outlives its target's removal from the configuration.

Long enough for a target file that is being rewritten, short enough for a pod
that was deleted to end its page.
"""


class TargetSet:
    """The targets of one configuration, found by the labels of an alert."""

    def __init__(self, targets: Iterable[Target]):
        self.targets: Final = tuple(targets)
        self.labels: Final = {key_of(target.labels): target.labels for target in self.targets}
        self._label_names: Final = sorted({n for target in self.targets for n in target.labels})
        self._scopes: dict[tuple[str, ...], tuple[Source, ...]] = {}

    def scope(self, labels: Labels) -> tuple[Source, ...]:
        """The targets none of whose labels contradicts these; all, where they say nothing."""
        wanted = tuple(labels.get(name, "") for name in self._label_names)
        if wanted not in self._scopes:
            given = [(n, v) for n, v in zip(self._label_names, wanted, strict=True) if v]
            self._scopes[wanted] = tuple(
                key for key, own in self.labels.items() if all(own.get(n, v) == v for n, v in given)
            )
        return self._scopes[wanted]


def key_of(labels: Labels) -> Source:
    return Source(labels.get("job", ""), labels.get("instance", ""))


def keys_of(layout: Layout) -> tuple[Source, ...]:
    """The target of each row, by its labels."""
    return layout.derive("target keys", lambda: tuple(key_of(each) for each in layout.labels))


class InputWatch:
    """Judges the inputs of alerts. `targets` is asked at each evaluation."""

    def __init__(
        self,
        tracer: Tracer,
        storage: Storage,
        targets: Callable[[], Sequence[Target]],
        *,
        default_interval: Millis,
        lookback: Millis = LOOKBACK,
        unknown_retention: Millis = UNKNOWN_RETENTION,
    ):
        self.tracer: Final = tracer
        self.storage: Final = storage
        self.lookback: Final = lookback
        self.unknown_retention: Final = unknown_retention
        self.missing_since: Final[dict[Source, Millis]] = {}
        self._targets: Final = targets
        self._default_interval: Final = default_interval
        self._set = TargetSet(())
        self._standing: dict[Rule, Standing] = {}

    def at(self, now: Millis) -> InputView:
        """The inputs as they are at `now`, for one evaluation of a group."""
        targets = tuple(self._targets())
        if targets != self._set.targets:
            self._set = TargetSet(targets)
        for key in self._set.labels.keys() & self.missing_since.keys():
            self.missing_since.pop(key, None)
        return InputView(self, self._set, now)

    def standing(self, rule: Rule) -> Standing:
        """What `rule` stands on; computed once."""
        if rule not in self._standing:
            self._standing[rule] = self._stand(rule)
        return self._standing[rule]

    def _stand(self, rule: Rule) -> Standing:
        feeding = self.tracer.feeding(rule)
        groups = [self.tracer.group(rule), *(recorder.group for recorder in feeding)]
        slowest = max(group.interval or self._default_interval for group in groups)
        # Inputs are kept in the store for the lookback only.
        settle = min(2 * slowest, self.lookback // 2)
        needs = dict.fromkeys(self.tracer.need(rule, r) for r in ("", *self.tracer.runtimes))
        return Standing(
            needs=tuple(need for need in needs if any(s.offered for s in series_of(need))),
            feeding=tuple(recorder.rule for recorder in feeding),
            settle=settle,
            reach=self._reach(rule.expr, frozenset({rule})) + settle,
        )

    def _reach(self, expr: Expr, above: frozenset[Rule]) -> Millis:
        """How far back the newest result may rest on raw samples, through recording rules."""
        furthest = 0
        for selector, reach in selectors(expr, lookback=0):
            below = (
                self._reach(recorder.rule.expr, above | {recorder.rule})
                for name in names(selector) or ()
                for recorder in self.tracer.recorders(name)
                if recorder.rule not in above
            )
            furthest = max(furthest, reach + max(below, default=0))
        return furthest


class Standing(NamedTuple):
    """What a rule stands on, the rules between, and the times that follow from them.

    `needs` has the raw series it needs, for each runtime that has any. A target that
    has not had them for longer than `reach` no longer speaks for an active alert.
    """

    needs: tuple[Need, ...]
    feeding: tuple[Rule, ...]
    settle: Millis
    reach: Millis


class _Scrapes(NamedTuple):
    """For each row of `up`: since when its last scrapes are judged, how many these are, and
    whether all of them went well."""

    layout: Layout
    since: IntArray
    judged: IntArray
    good: BoolArray


class InputView:
    """The inputs at one time. What is read from the store is read once."""

    def __init__(self, watch: InputWatch, targets: TargetSet, now: Millis):
        self._watch = watch
        self._targets = targets
        self._now = now
        self._fresh: dict[str, frozenset[Source]] = {}
        self._scrapes: dict[Millis, _Scrapes] = {}
        self._settled: dict[tuple[str, Millis], frozenset[Source]] = {}

    def sources(
        self, rule: Rule, labels: Labels, before: Mapping[Source, Millis]
    ) -> Mapping[Source, Millis]:
        """The targets that speak for an active alert, each with when it last did.

        `labels` are those of the expression's result, `before` what was noted at
        the evaluation before.
        """
        standing = self._watch.standing(rule)
        if not standing.needs:
            return {}
        scope = self._targets.scope(labels)
        own = key_of(labels)
        # What writes series and is no target (the daemon itself) speaks under its own labels.
        candidates = scope if own in scope else (*scope, own)
        noted = {each: self._now for each in candidates if self._has(rule, each, self.fresh)}
        for source, seen in before.items():
            if source not in noted and self._now - seen <= standing.reach:
                noted[source] = seen
        if not noted and labels.get("instance"):
            # True from old samples alone.
            noted = dict.fromkeys(scope or (own,), self._now)
        return noted

    def judge(self, rule: Rule, tracked: Tracked) -> Inputs:
        """Whether the absence of an active alert of `rule` can mean that it is false."""
        if not tracked.sources:
            return Inputs.KNOWN
        states = {self._judge(rule, source) for source in tracked.sources}
        if Inputs.UNKNOWN in states:
            return Inputs.UNKNOWN
        return Inputs.KNOWN if Inputs.KNOWN in states else Inputs.GONE

    def _judge(self, rule: Rule, source: Source) -> Inputs:
        settle = self._watch.standing(rule).settle
        if self._has(rule, source, lambda name: self.settled(name, settle)):
            return Inputs.KNOWN
        if source in self._targets.labels:
            return Inputs.UNKNOWN
        since = self._watch.missing_since.setdefault(source, self._now)
        over = self._now - since >= self._watch.unknown_retention
        return Inputs.GONE if over else Inputs.UNKNOWN

    def _has(self, rule: Rule, source: Source, having: Callable[[str], frozenset[Source]]) -> bool:
        """Whether a target has what `rule` needs, as an engine of any runtime."""
        own = self._targets.labels.get(source, EMPTY_LABELS)

        def passes(matchers: tuple[Matcher, ...]) -> bool:
            return matches_all(own, (m for m in matchers if m.name in own))

        def has(name: str) -> bool:
            return source in having(name)

        return any(met(need, has, passes) for need in self._watch.standing(rule).needs)

    def fresh(self, name: str) -> frozenset[Source]:
        """The targets that have a series of this name now."""
        if name not in self._fresh:
            found = self._watch.storage.instant(_named(name), self._now, self._watch.lookback)
            self._fresh[name] = _picked(found.layout, found.present)
        return self._fresh[name]

    def settled(self, name: str, settle: Millis) -> frozenset[Source]:
        """The targets of which it can be told what a rule on this series makes of it."""
        if name in SCRAPE_SERIES:
            return self.fresh(name)
        key = (name, settle)
        if key not in self._settled:
            self._settled[key] = self._find_settled(name, settle)
        return self._settled[key]

    def _find_settled(self, name: str, settle: Millis) -> frozenset[Source]:
        scrapes = self._scrapes_of(settle)
        start = self._now - self._watch.lookback
        layout, _, times, counts = self._watch.storage.window(_named(name), start, self._now)
        row = derive_pair(layout, scrapes.layout, "scrapes", lambda: _rows(layout, scrapes.layout))
        scraped = row >= 0
        # Series of targets that are not scraped: seen more than once, and for long enough.
        good = (counts >= 2) & (_column(times, 0) <= self._now - settle)
        if scraped.any():
            at = row[scraped]
            on_page = _counted(times[scraped], counts[scraped], scrapes.since[at])
            good[scraped] = scrapes.good[at] & (on_page >= scrapes.judged[at])
        return _picked(layout, good) & self.fresh(name)

    def _scrapes_of(self, settle: Millis) -> _Scrapes:
        if settle not in self._scrapes:
            self._scrapes[settle] = self._read_scrapes(settle)
        return self._scrapes[settle]

    def _read_scrapes(self, settle: Millis) -> _Scrapes:
        """Good scrapes only, two at least, back to `settle` ago or further."""
        start = self._now - self._watch.lookback
        layout, values, times, counts = self._watch.storage.window(_named("up"), start, self._now)
        before_newest = _column(times, np.maximum(counts - 2, 0))
        since = np.minimum(self._now - settle, before_newest)
        watched = (counts >= 2) & (_column(times, 0) <= self._now - settle)
        judged = _valid(times, counts) & (times >= since[:, None])
        failed = (judged & (values != 1.0)).any(axis=1)
        return _Scrapes(layout, since, judged.sum(axis=1), watched & ~failed)


def _named(name: str) -> tuple[Matcher, ...]:
    return (Matcher(METRIC_NAME, MatchOp.EQUAL, name),)


def _picked(layout: Layout, chosen: BoolArray) -> frozenset[Source]:
    keys = keys_of(layout)
    return frozenset(keys[row] for row in np.flatnonzero(chosen).tolist())


def _rows(layout: Layout, other: Layout) -> IntArray:
    """For each row of `layout` the row of `other` that is of the same target, or -1."""
    place = {key: row for row, key in enumerate(keys_of(other))}
    return np.array([place.get(key, -1) for key in keys_of(layout)], dtype=np.int64)


def _column(times: IntArray, column: IntArray | int) -> IntArray:
    """One time a row; rows without samples give rubbish."""
    if not times.size:
        return np.zeros(len(times), dtype=np.int64)
    picked: IntArray = times[np.arange(len(times)), column]
    return picked


def _valid(times: IntArray, counts: IntArray) -> BoolArray:
    return np.arange(times.shape[1]) < counts[:, None]


def _counted(times: IntArray, counts: IntArray, since: IntArray) -> IntArray:
    """How many samples of each row are not older than `since`."""
    counted: IntArray = np.count_nonzero(_valid(times, counts) & (times >= since[:, None]), axis=1)
    return counted
