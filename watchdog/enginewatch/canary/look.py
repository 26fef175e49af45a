"""All of a baseline's tasks, asked once: what the answers show beside right and wrong."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev
from typing import Final, NamedTuple

from enginewatch.canary.baseline import Answer, Baseline, Known
from enginewatch.canary.decision import Decision
from enginewatch.canary.evaluation import OVERALL
from enginewatch.canary.panel import Panel

_MOST_NATS: Final = 1.0
"""Shifts of single tasks are cut here, either way: no task decides alone."""


class Shift(NamedTuple):
    """By how many nats the log-probability of right answers fell on average, and the least that it
    fell by with a confidence of 99%. Of so many tasks."""

    mean: float
    low: float
    tasks: int


@dataclass(frozen=True, slots=True)
class Look:
    """`faults` counts answers that are no language, by kind; `degenerate` all of them."""

    source: str
    answers: int
    unanswered: int = 0
    degenerate: int = 0
    unscored: int = 0
    faults: Mapping[str, int] | None = None
    shifts: Mapping[str, Shift] | None = None
    problem: str = ""
    """Why the first of those that were not answered was not."""


def look(
    baseline: Baseline,
    answers: Iterable[tuple[Known, Answer | str]],
    decision: Decision,
    source: str,
) -> Look:
    """What one answer to each task says; a text in its place says why there is none."""
    panel = Panel(baseline, decision)
    faults: Counter[str] = Counter()
    shifts: dict[str, list[float]] = {}
    problems: list[str] = []
    given = degenerate = unscored = 0
    for known, answer in answers:
        if isinstance(answer, str):
            problems.append(answer)
            continue
        given += 1
        unscored += answer.passed is None
        found = panel.take(known.task.id, answer).faults
        degenerate += bool(found)
        faults.update(each.value for each in found)
        if answer.logprob is not None and known.logprobs:
            shift = fmean(known.logprobs) - answer.logprob
            for family in (OVERALL, known.task.family):
                cut = max(-_MOST_NATS, min(_MOST_NATS, shift))
                shifts.setdefault(family, []).append(cut)
    return Look(
        source,
        given,
        len(problems),
        degenerate,
        unscored,
        dict(faults),
        {family: _shift(values) for family, values in shifts.items()},
        next(iter(problems), ""),
    )


def _shift(values: list[float]) -> Shift:
    mean = fmean(values)
    if len(values) < 2:
        return Shift(mean, -math.inf, len(values))
    error = stdev(values) / math.sqrt(len(values))
    return Shift(mean, mean - NormalDist().inv_cdf(0.99) * error, len(values))
