"""Everything between the scrapes and the receivers: the store, the rules over it, the changes.

The daemon calls `evaluate` by the wall clock, a replay by the recording's; neither
is seen from here. One thread evaluates; writers append, and the API reads, from
others at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from enginewatch.alerting.coverage import Blind, Coverage, CoverageState
from enginewatch.alerting.events import AlertChange, GroupResult
from enginewatch.alerting.exports import Exports, Roll
from enginewatch.alerting.inputs import InputWatch, key_of
from enginewatch.alerting.manager import RuleManager
from enginewatch.alerting.rules import RecordingRule, RuleFile
from enginewatch.alerting.snapshot import Snapshot
from enginewatch.alerting.trace import Tracer, kept_series
from enginewatch.model import EMPTY_LABELS, Labels, Millis, Sample, Target
from enginewatch.promql.check import LOOKBACK
from enginewatch.promql.evaluator import Evaluator
from enginewatch.store.head import Head
from enginewatch.store.rounds import RoundStore
from enginewatch.store.source import Source

OWN_PREFIX: Final = "enginewatch_"
"""Of the daemon's own metrics, which are kept whether a rule reads them or not."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a configuration says about evaluating. `interval` is for groups that give none."""

    interval: Millis = 5_000
    external_labels: Labels = EMPTY_LABELS
    external_url: str = ""


@dataclass(frozen=True, slots=True)
class Round:
    """One evaluation: the groups that were due, and what changed in all of them."""

    at: Millis
    results: tuple[GroupResult, ...]

    @property
    def changes(self) -> tuple[AlertChange, ...]:
        return tuple(change for result in self.results for change in result.changes)


class Retention:
    """Which metrics are kept, and for how long: what rules read for as long as they ask, what
    they write for the lookback, and nothing else of the engines' pages."""

    def __init__(self, files: Iterable[RuleFile]):
        kept: dict[str | None, Millis] = dict.fromkeys(_written(files), LOOKBACK)
        kept.update(kept_series(files, LOOKBACK))
        self._kept: Final = kept
        self._all: Final = kept.get(None)

    def __call__(self, name: str) -> Millis | None:
        span = self._kept.get(name, self._all)
        return LOOKBACK if span is None and name.startswith(OWN_PREFIX) else span

    def wants(self, name: str) -> bool:
        return self(name) is not None


def _written(files: Iterable[RuleFile]) -> Iterator[str]:
    yield from ("ALERTS", "ALERTS_FOR_STATE")
    for rule in (rule for file in files for group in file.groups for rule in group.rules):
        if isinstance(rule, RecordingRule):
            yield rule.name


class Judge:
    """The rules of one configuration over one store; `reload` puts others in their place.

    `targets` is asked at each evaluation which targets are configured now.
    """

    def __init__(
        self, files: Iterable[RuleFile], targets: Callable[[], Sequence[Target]], settings: Settings
    ):
        self._targets: Final = targets
        self._last_slots: dict[object, int] = {}
        files = tuple(files)
        self.retention = Retention(files)
        self.head: Final = Head(keep=self.retention)
        self.evaluator: Final = Evaluator(self.head, lookback=LOOKBACK)
        """For anyone's queries; the rules have one of their own, over their round's reads."""
        self._rounds: Final = RoundStore(self.head)
        self._round_evaluator: Final = Evaluator(self._rounds, lookback=LOOKBACK)
        self._set_up(files, settings)

    def _set_up(self, files: tuple[RuleFile, ...], settings: Settings) -> None:
        tracer = Tracer(files)
        self.files = files
        self._settings = settings
        self._coverage = Coverage(tracer)
        self._covered = CoverageState()
        self._roll = Roll(())
        self._told = _Writer(self.head.source("coverage"))
        watch = InputWatch(
            tracer,
            self.head,
            self._targets,
            default_interval=settings.interval,
            lookback=LOOKBACK,
        )
        self.manager = RuleManager(
            files,
            self._round_evaluator,
            self._rounds,
            interval=settings.interval,
            external_labels=settings.external_labels,
            external_url=settings.external_url,
            watch=watch,
        )

    @property
    def tick(self) -> Millis:
        """How often `evaluate` has to be called: the shortest interval of any group."""
        intervals = (self.manager.interval(group) for group in self.manager.groups)
        return min(intervals, default=self._settings.interval)

    def evaluate(self, now: Millis) -> Round:
        """Evaluates the groups that are due at `now`: those whose interval has begun anew."""
        self._rounds.begin()
        self._cover(now)
        manager = self.manager
        due = (g for g in manager.groups if self.is_due(g, now, manager.interval(g)))
        return Round(now, tuple(manager.evaluate(group, now) for group in due))

    def is_due(self, what: object, now: Millis, interval: Millis | None = None) -> bool:
        """Whether an interval has begun since this was last asked of the same thing; that of
        evaluations if none is given."""
        slot = now // (interval or self._settings.interval)
        due = self._last_slots.get(what) != slot
        self._last_slots[what] = slot
        return due

    def _cover(self, now: Millis) -> None:
        """Writes down which hazards can't be seen on which targets, if that is due again."""
        if not self.is_due("coverage", now):
            return
        targets = tuple(self._targets())
        if targets != self._roll.targets:
            self._roll = Roll(targets)
        exports = Exports(self.head, self._roll, now, LOOKBACK)
        self._covered = self._coverage.look(self._covered, exports)
        self._told.write(now, (blind.sample() for blind in self.blind()))

    def blind(self) -> tuple[Blind, ...]:
        """What could not be seen at the last evaluation."""
        return tuple(self._covered.all_blind())

    def runtime_of(self, target: Target) -> str:
        """The engine that a target was recognised as at the last evaluation, or `""`."""
        return self._covered.runtimes.get(key_of(target.labels), "")

    def write(self, key: str, at: Millis, samples: Iterable[Sample]) -> None:
        """One round of a source that is no scrape, such as the daemon's own metrics."""
        _Writer(self.head.source(key)).write(at, samples)

    def restore(self, saved: Snapshot, now: Millis) -> tuple[AlertChange, ...]:
        """Goes on from an earlier process, before the first evaluation."""
        return self.manager.restore(saved, now)

    def reload(
        self, files: Iterable[RuleFile], settings: Settings, now: Millis
    ) -> tuple[AlertChange, ...]:
        """Judges by other rules from now on; alerts of rules that are still there go on."""
        files = tuple(files)
        before = self.manager
        self.retention = Retention(files)
        self.head.reconfigure(self.retention)
        self._set_up(files, settings)
        self._last_slots.clear()
        return self.manager.inherit(before, now)


class _Writer:
    """Appends labelled samples to a source, which has refs for them."""

    def __init__(self, source: Source):
        self._source = source

    def write(self, at: Millis, samples: Iterable[Sample]) -> None:
        found = [(self._source.resolve(s.labels), s.value) for s in samples]
        kept = [(ref, value) for ref, value in found if ref is not None]
        refs = np.array([ref for ref, _ in kept], np.int64)
        self._source.append(at, refs, np.array([value for _, value in kept], np.float64))
