"""Which hazards can't be seen on which targets: `enginewatch_hazard_blind`.

A target is blind to a verdict when the alerts of that verdict need a raw series
(`alerting.trace`) that it does not export now. What counts:

- every alerting rule with the label `verdict`; a target is blind to a verdict with
  several if any of them lacks a series that the rules know for its runtime, or if
  none of them can be had for its runtime at all;
- the target's runtime: the label `runtime` of its configuration, or else the
  engine whose rules name the most of what it exports, kept once it was told;
- an alert that reads engine series is about every engine; one that names raw
  series only, about the targets that export at least one of them. A target that
  exports something a rule names, and nothing of an engine, is no engine (a GPU
  exporter); one that exports nothing that any rule names is taken for one that
  is not recognised;
- a target that does not answer is neither blind nor seeing, and keeps what was
  last known of it: other alerts cover it.

The label `cause` tells what can be done: `absent` (its runtime's rules name the
series and it does not export them: a rename, a switch), `unsupported` (no rule
makes the signal for its runtime), `unrecognised` (nothing on its page is known).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np

from enginewatch.alerting.exports import Exports
from enginewatch.alerting.needs import (
    Missing,
    Need,
    World,
    judge,
    listed,
    matchers_of,
    missing,
    series_of,
)
from enginewatch.alerting.rules import AlertingRule
from enginewatch.alerting.state import Source
from enginewatch.alerting.trace import HAZARD_BLIND, RUNTIME, SCRAPE_SERIES, Tracer
from enginewatch.model import METRIC_NAME, Labels, Matcher, Sample, Target
from enginewatch.store.base import BoolArray, IntArray

VERDICT: Final = "verdict"

_SHARED_PREFIXES: Final = ("process_", "python_", "go_")
"""Series of client libraries, which say nothing of what program it is."""


class Cause(StrEnum):
    ABSENT = "absent"
    UNSUPPORTED = "unsupported"
    UNRECOGNISED = "unrecognised"


@dataclass(frozen=True, slots=True)
class Blind:
    """A verdict that can't be reached about a target, and what is missing for it."""

    verdict: str
    target: Target
    runtime: str
    missing: str
    cause: Cause
    alerts: tuple[str, ...]

    def sample(self) -> Sample:
        """As it goes into the store: the value is 1, and the series ends when it is over."""
        own = {"instance", "job", "deployment"}
        labels = {
            **{name: value for name, value in self.target.labels.items() if name in own},
            METRIC_NAME: HAZARD_BLIND,
            VERDICT: self.verdict,
            RUNTIME: self.runtime,
            "missing": self.missing,
            "cause": str(self.cause),
            "alerts": ", ".join(self.alerts),
        }
        return Sample(Labels(labels), 1.0)


@dataclass(frozen=True, slots=True)
class CoverageState:
    """What is remembered of targets from one look to the next.

    It follows from `seen`, the targets and what was to be seen of them, and from
    the state before; while `seen` is the same, so is the rest.
    """

    runtimes: Mapping[Source, str] = field(default_factory=dict)
    blind: Mapping[Source, tuple[Blind, ...]] = field(default_factory=dict)
    seen: tuple[tuple[Target, ...], bytes] = ((), b"")

    def all_blind(self) -> Iterator[Blind]:
        for found in self.blind.values():
            yield from found


class Coverage:
    """The hazards of a configuration's rules, and what they need of each runtime."""

    def __init__(self, tracer: Tracer):
        self._tracer: Final = tracer
        self._hazards: Final[dict[str, list[AlertingRule]]] = defaultdict(list)
        for rule in tracer.alerts:
            if rule.label(VERDICT):
                self._hazards[rule.label(VERDICT)].append(rule)
        self._about_engines: Final = frozenset(filter(tracer.is_about_engines, tracer.alerts))
        self._names: Final = {
            rule: tracer.raw_names(rule) - SCRAPE_SERIES for rule in tracer.alerts
        }
        self._all_names: Final = sorted(tracer.all_raw_names() - SCRAPE_SERIES)
        self._marks: Final = {
            runtime: sorted(
                name
                for name in tracer.engine_names(runtime)
                if not name.startswith(_SHARED_PREFIXES)
            )
            for runtime in tracer.runtimes
        }

    def look(self, before: CoverageState, exports: Exports) -> CoverageState:
        """What the targets of `exports` are blind to; a pure function of both arguments."""
        seen = (exports.targets, exports.picture(self._all_names))
        if seen == before.seen:
            return before
        answering = exports.answering()
        runtimes = self._runtimes(before, exports)
        blind: dict[Source, tuple[Blind, ...]] = {}
        found = self._blind(exports, answering, runtimes)
        for place, key in enumerate(exports.roll.keys):
            now = tuple(found[place]) if answering[place] else before.blind.get(key, ())
            if now:
                blind[key] = now
        return CoverageState(dict(zip(exports.roll.keys, runtimes, strict=True)), blind, seen)

    def _runtimes(self, before: CoverageState, exports: Exports) -> list[str]:
        """The runtime of each target; `""` where nothing of an engine was ever seen."""
        configured = [target.labels.get(RUNTIME, "") for target in exports.targets]
        known = [before.runtimes.get(key, "") for key in exports.roll.keys]
        detected = self._detected(exports, known) if self._marks and exports.targets else known
        return [mine or seen for mine, seen in zip(configured, detected, strict=True)]

    def _detected(self, exports: Exports, known: Sequence[str]) -> list[str]:
        """The runtime whose rules name most of a target's series; what was known if none do."""
        none = np.zeros(len(exports.targets), dtype=np.int64)
        hits = np.array(
            [sum((exports.present(n) for n in names), none) for names in self._marks.values()]
        )
        sizes = np.array([max(len(names), 1) for names in self._marks.values()])
        # Of equal counts the one that is the larger part of its engine's names.
        best = np.argmax(hits + hits / sizes[:, None] / 2, axis=0)
        some: BoolArray = hits.max(axis=0) > 0
        runtimes = tuple(self._marks)
        return [runtimes[best[i]] if some[i] else known[i] for i in range(len(known))]

    def _blind(
        self, exports: Exports, answering: BoolArray, runtimes: Sequence[str]
    ) -> dict[int, list[Blind]]:
        """By the place of the target."""
        blind: dict[int, list[Blind]] = defaultdict(list)
        unrecognised = self._unrecognised(exports, runtimes)
        for runtime in set(runtimes):
            ours = np.array([each == runtime for each in runtimes], dtype=np.bool_) & answering
            for verdict in self._hazards:
                for place, lacking in self._lacking(verdict, runtime, exports, ours, unrecognised):
                    target = exports.targets[place]
                    blind[place].append(
                        _told(verdict, target, runtime, lacking, unrecognised=unrecognised[place])
                    )
        return blind

    def _lacking(
        self,
        verdict: str,
        runtime: str,
        exports: Exports,
        ours: BoolArray,
        unrecognised: BoolArray,
    ) -> Iterator[tuple[int, list[_Lacking]]]:
        """The targets among `ours` that are blind to a verdict, and which alerts lack what."""
        world = World(len(exports.targets), exports.present, exports.passing)
        seeing = np.zeros(len(exports.targets), dtype=np.bool_)
        found: dict[int, list[_Lacking]] = defaultdict(list)
        for rule in self._hazards[verdict]:
            need = self._tracer.need(rule, runtime)
            applies, met = judge(need, world)
            asked = ours & applies & self._concerned(rule, runtime, exports, unrecognised)
            if rule in self._about_engines:
                seeing |= asked & met
            for place, what in _missing(need, exports, np.flatnonzero(asked & ~met)):
                found[place].append(_Lacking(rule, what))
        for place, lacking in found.items():
            # What no rule makes for the runtime is a refinement that it does without,
            # unless nothing else of the verdict can see it.
            offered = [each for each in lacking if each.missing.offered]
            if offered or not seeing[place]:
                yield place, offered or lacking

    def _unrecognised(self, exports: Exports, runtimes: Sequence[str]) -> BoolArray:
        """Targets of no known runtime whose pages hold nothing that any hazard names."""
        known = np.array([bool(runtime) for runtime in runtimes], dtype=np.bool_)
        for name in self._all_names:
            known |= exports.present(name)
        return ~known

    def _concerned(
        self, rule: AlertingRule, runtime: str, exports: Exports, unrecognised: BoolArray
    ) -> BoolArray:
        if rule in self._about_engines:
            return np.ones(len(exports.targets), dtype=np.bool_) if runtime else unrecognised
        exporting = np.zeros(len(exports.targets), dtype=np.bool_)
        for name in self._names[rule]:
            exporting |= exports.present(name)
        return exporting


class _Lacking(NamedTuple):
    """An alert and what it lacks."""

    rule: AlertingRule
    missing: Missing


def _missing(need: Need, exports: Exports, places: IntArray) -> Iterator[tuple[int, Missing]]:
    """What each of the targets lacks. An upgrade that renames a series does it to a whole fleet
    at once, so the tree is walked once for targets that are alike in what it asks."""
    if not len(places):
        return
    answers = [exports.present(each.name) for each in series_of(need)]
    answers += [exports.passing(matchers) for matchers in matchers_of(need)]
    known: dict[bytes, Missing] = {}
    for place, answer in zip(places.tolist(), np.array(answers).T[places], strict=True):
        alike = answer.tobytes()
        if alike not in known:
            known[alike] = _missing_at(need, exports, place)
        yield place, known[alike]


def _missing_at(need: Need, exports: Exports, place: int) -> Missing:
    def has(name: str) -> bool:
        return bool(exports.present(name)[place])

    def passes(matchers: tuple[Matcher, ...]) -> bool:
        return bool(exports.passing(matchers)[place])

    return missing(need, has, passes) or Missing(())


def _told(
    verdict: str, target: Target, runtime: str, lacking: Sequence[_Lacking], *, unrecognised: bool
) -> Blind:
    if unrecognised:
        cause = Cause.UNRECOGNISED
    else:
        cause = Cause.ABSENT if lacking[0].missing.offered else Cause.UNSUPPORTED
    return Blind(
        verdict,
        target,
        runtime,
        listed(item for each in lacking for item in each.missing.items),
        cause,
        tuple(dict.fromkeys(each.rule.name for each in lacking)),
    )
