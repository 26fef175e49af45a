"""All tests on one deployment's answers: of each family of tasks, and of all of them together.

Each makes a number x of an answer (`enginewatch.canary.sequential`):

- `pass`: the task's pass rate in the baseline, less 1 if the answer is right. Catches that more
  is lost than gained.
- `steady`: 1 for a wrong answer to a task that the baseline always got right; other tasks do
  not count. Catches the same much sooner, where the baseline is sure of its answers.
- `logprob`: by how much the right answer's log-probability fell, in units of the scale, cut
  at -1 and 1. Catches what does not show in the answers yet.

A healthy deployment has a mean x of at most the tolerance (`enginewatch.canary.calibrate`); the
error budget is divided between the tests by `rules/canary/decision.yml`. Answers that are
no language are told at once, beside the tests.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from enginewatch.canary.baseline import Answer, Baseline, Known
from enginewatch.canary.calibrate import Tolerances, clipped, tolerances
from enginewatch.canary.decision import Decision, Share
from enginewatch.canary.degenerate import Alike, Fault, faults
from enginewatch.canary.evaluation import OVERALL
from enginewatch.canary.sequential import Watch
from enginewatch.model import METRIC_NAME, Labels, Sample

TESTS: Final = ("pass", "steady", "logprob")
_PREFIX: Final = "enginewatch_canary_"


class Change(NamedTuple):
    """An alarm that began, or ended, with an answer."""

    test: str
    family: str
    began: bool


class Taken(NamedTuple):
    """What one answer brought: faults that the baseline's answers to the task do not have."""

    faults: frozenset[Fault]
    changes: tuple[Change, ...]


@dataclass
class _Group:
    """One family, or all of them: its tests, and its newest answers for people to see."""

    tolerances: Tolerances
    watches: Mapping[str, Watch]
    rate: float | None
    passed: deque[bool]
    shifts: deque[float]
    answers: int = 0


class Panel:
    """Judges answers to a baseline's tasks, in the order in which the tasks were drawn.

    `accepted` is a drop of the pass rate, 0.02 for two points, that is no fault here.
    """

    def __init__(self, baseline: Baseline, decision: Decision, accepted: float = 0.0):
        self.baseline: Final = baseline
        self._decision: Final = decision
        self._known: Final = {each.task.id: each for each in baseline.known}
        self._usual: Final = {each.task.id: _usual(each, decision) for each in baseline.known}
        self._alike: Final = Alike(decision.degenerate)
        self._faults: Final[deque[frozenset[Fault]]] = deque(maxlen=decision.degenerate.recent)
        self.unscored = 0
        families = baseline.families
        self._groups: Final = {
            name: self._group(name, len(families), accepted) for name in (OVERALL, *families)
        }

    def _group(self, name: str, families: int, accepted: float) -> _Group:
        known = [each for each in self.baseline.known if name in (OVERALL, each.task.family)]
        found = tolerances(known, self._decision, accepted, self.baseline.known)
        settings = {
            "pass": (found.pass_, found.gain, self._decision.budget.pass_),
            "steady": (found.steady, 0.0, self._decision.budget.steady),
            "logprob": (found.logprob, 1.0, self._decision.budget.logprob),
        }
        watches = {
            test: Watch(
                self._decision,
                tolerance=tolerance,
                gain=gain,
                alpha=self._decision.alpha * _share(share, name, families),
            )
            for test, (tolerance, gain, share) in settings.items()
            if tolerance is not None and tolerance < 1
        }
        rates = [each.rate for each in known if each.rate is not None]
        recent = self._decision.recovery.recent
        return _Group(
            found,
            watches,
            math.fsum(rates) / len(rates) if rates else None,
            deque(maxlen=recent),
            deque(maxlen=recent),
        )

    def draw(self, rng: random.Random) -> Known:
        """A task, any with the same chance: the tests ask for nothing less."""
        known = self.baseline.known
        return known[int(rng.random() * len(known))]

    def take(self, task: str, answer: Answer) -> Taken:
        """Count an answer to a task of this id. Raises KeyError for a task of no baseline."""
        known = self._known[task]
        found = self._faults_of(known, answer)
        self._faults.append(found)
        if answer.passed is None:
            self.unscored += 1
        changes = []
        for name in (OVERALL, known.task.family):
            group = self._groups[name]
            group.answers += 1
            if answer.passed is not None:
                group.passed.append(answer.passed)
            for test, x in self._xs(group, known, answer).items():
                watch = group.watches.get(test)
                if watch is not None and watch.take(x):
                    changes.append(Change(test, name, watch.alarm))
        return Taken(found, tuple(changes))

    def _xs(self, group: _Group, known: Known, answer: Answer) -> dict[str, float]:
        found = {}
        if answer.passed is not None and known.rate is not None:
            found["pass"] = known.rate - answer.passed
            if known.rate == 1.0:
                found["steady"] = 1.0 - answer.passed
        before = known.logprobs
        if answer.logprob is not None and before:
            shift = math.fsum(before) / len(before) - answer.logprob
            group.shifts.append(shift)
            found["logprob"] = clipped(shift / group.tolerances.scale)
        return found

    def _faults_of(self, known: Known, answer: Answer) -> frozenset[Fault]:
        habits, expected = self._usual[known.task.id]
        found = answer.faults | faults(answer.text, self._decision.degenerate)
        if Fault.EMPTY not in found and self._alike.take(known.task.prompt, answer.text, expected):
            found |= {Fault.IDENTICAL}
        return found - habits

    @property
    def degenerate(self) -> float:
        """How many of the recent answers are no language, in units of what is an alarm."""
        return sum(map(bool, self._faults)) / self._decision.degenerate.alarm

    def kinds(self) -> dict[str, int]:
        """The recent answers that are no language, by what is wrong with them."""
        return {
            kind.value: count
            for kind in Fault
            if (count := sum(kind in each for each in self._faults))
        }

    def watches(self) -> Iterator[tuple[str, str, Watch]]:
        """Test, family and watch of each."""
        for name, group in self._groups.items():
            for test, watch in group.watches.items():
                yield test, name, watch

    def samples(self) -> Iterator[Sample]:
        """`enginewatch_canary_…`, without the target's labels: `evidence_ratio` (1 is an alarm),
        `drop`, `tolerance` by test and family; `answers_total`, `pass_ratio` of the recent
        answers and `baseline_pass_ratio` by family, `logprob_shift_nats`, the recent mean;
        `degenerate_answers` by kind, among the recent `judged_answers`."""
        for test, family, watch in self.watches():
            yield _sample("evidence_ratio", watch.evidence, test=test, family=family)
            yield _sample("tolerance", watch.tolerance, test=test, family=family)
            if watch.drop is not None:
                yield _sample("drop", watch.drop, test=test, family=family)
        for family, group in self._groups.items():
            yield _sample("answers_total", group.answers, family=family)
            if group.rate is not None:
                yield _sample("baseline_pass_ratio", group.rate, family=family)
            if group.passed:
                rate = sum(group.passed) / len(group.passed)
                yield _sample("pass_ratio", rate, family=family)
            if group.shifts:
                shift = math.fsum(group.shifts) / len(group.shifts)
                yield _sample("logprob_shift_nats", shift, family=family)
        yield _sample("judged_answers", len(self._faults))
        yield _sample("evidence_ratio", self.degenerate, test="degenerate", family=OVERALL)
        yield _sample("unscored_answers_total", self.unscored)
        for kind in Fault:
            count = sum(kind in each for each in self._faults)
            yield _sample("degenerate_answers", count, kind=kind.value)

    def to_json(self) -> dict[str, Any]:
        """What a restart needs to go on with the tests."""
        return {
            "watches": [[test, family, watch.to_json()] for test, family, watch in self.watches()],
            "answers": {name: group.answers for name, group in self._groups.items()},
            "passed": {name: list(group.passed) for name, group in self._groups.items()},
            "shifts": {name: list(group.shifts) for name, group in self._groups.items()},
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """As it was saved, by a panel of the same baseline and decision. Raises ValueError,
        TypeError or KeyError; the panel is of no use then."""
        for test, family, state in saved["watches"]:
            self._groups[family].watches[test].restore(state)
        for name, group in self._groups.items():
            group.answers = int(saved["answers"][name])
            group.passed.extend(bool(each) for each in saved["passed"][name])
            group.shifts.extend(float(each) for each in saved["shifts"][name])


def _usual(known: Known, decision: Decision) -> tuple[frozenset[Fault], frozenset[str]]:
    """The faults that the baseline's answers to a task have too, and those answers themselves."""
    habits: frozenset[Fault] = frozenset()
    for each in known.answers:
        habits |= each.faults | faults(each.text, decision.degenerate)
    expected = {each.text.strip() for each in known.answers}
    if isinstance(known.task.answer, str):
        expected.add(known.task.answer)
    return habits, frozenset(expected)


def _share(share: Share, name: str, families: int) -> float:
    return share.overall if name == OVERALL else share.families / max(families, 1)


def _sample(name: str, value: float, **labels: str) -> Sample:
    return Sample(Labels(labels, **{METRIC_NAME: f"{_PREFIX}{name}"}), float(value))
