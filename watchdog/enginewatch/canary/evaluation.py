"""A finished evaluation, whatever tool made it: outcomes by task, or pass rates by family alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from enginewatch.canary.paired import Paired, Rate, Unpaired

OVERALL = "overall"
"""The name under which all families together are told of."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One answer to one task: `score` is 1 for right and 0 for wrong; metrics between count too."""

    family: str
    task: str
    score: float
    answer: str = ""
    expected: str = ""

    @property
    def passed(self) -> bool:
        return self.score >= 1.0


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What an evaluation found. `rates` are by family, also of those without outcomes.

    `about` is what the tool says of the model, engine, version and format, for people.
    """

    source: str
    rates: Mapping[str, Rate]
    outcomes: tuple[Outcome, ...] = ()
    about: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One family in two evaluations. `paired` is None where tasks can't be matched."""

    family: str
    baseline: Rate
    candidate: Rate
    paired: Paired | None
    lost: tuple[tuple[Outcome, Outcome], ...] = ()
    """Tasks that were right before, with both answers."""

    @property
    def difference(self) -> Paired | Unpaired:
        return self.paired or Unpaired(self.baseline, self.candidate)


def compare(baseline: Evaluation, candidate: Evaluation) -> tuple[Comparison, ...]:
    """Each family that both have, by name, and all of them together (`OVERALL`) at the end.

    Tasks are matched by family and id; of several answers to a task the majority counts.
    A family is paired when both sides have outcomes for nearly the same tasks: where a
    tenth or more of the tasks has no partner, what is left may be a selection, and rates
    are compared instead.
    """
    before, after = _by_family(baseline.outcomes), _by_family(candidate.outcomes)
    found = []
    for family in sorted(baseline.rates.keys() & candidate.rates.keys()):
        old, new = before.get(family, {}), after.get(family, {})
        common = sorted(old.keys() & new.keys())
        complete = len(common) > 0.9 * max(len(old), len(new), 1)
        pairs = [(old[task], new[task]) for task in common] if complete else []
        found.append(
            Comparison(
                family,
                baseline.rates[family],
                candidate.rates[family],
                Paired.count((a.passed, b.passed) for a, b in pairs) if pairs else None,
                tuple((a, b) for a, b in pairs if a.passed and not b.passed),
            )
        )
    return (*found, _together(found)) if len(found) > 1 else tuple(found)


def rates_of(outcomes: Iterable[Outcome]) -> dict[str, Rate]:
    """Pass rates by family."""
    scores: dict[str, list[float]] = {}
    for outcome in outcomes:
        scores.setdefault(outcome.family, []).append(min(1.0, max(0.0, outcome.score)))
    return {family: Rate(sum(each) / len(each), len(each)) for family, each in scores.items()}


def _by_family(outcomes: Iterable[Outcome]) -> dict[str, dict[str, Outcome]]:
    """One outcome a task; of several answers, one of the kind that most are of."""
    answers: dict[str, dict[str, list[Outcome]]] = {}
    for outcome in outcomes:
        answers.setdefault(outcome.family, {}).setdefault(outcome.task, []).append(outcome)
    return {
        family: {task: _majority(each) for task, each in tasks.items()}
        for family, tasks in answers.items()
    }


def _majority(answers: list[Outcome]) -> Outcome:
    passed = [each for each in answers if each.passed]
    failed = [each for each in answers if not each.passed]
    return passed[0] if len(passed) > len(failed) else failed[0]


def _together(families: list[Comparison]) -> Comparison:
    paired = [each.paired for each in families if each.paired is not None]
    whole = Paired(
        both=sum(each.both for each in paired),
        lost=sum(each.lost for each in paired),
        gained=sum(each.gained for each in paired),
        neither=sum(each.neither for each in paired),
    )
    return Comparison(
        OVERALL,
        _pooled([each.baseline for each in families]),
        _pooled([each.candidate for each in families]),
        whole if len(paired) == len(families) else None,
        tuple(pair for each in families for pair in each.lost),
    )


def _pooled(rates: list[Rate]) -> Rate:
    tasks = sum(each.tasks for each in rates)
    return Rate(min(1.0, sum(each.rate * each.tasks for each in rates) / tasks), tasks)
