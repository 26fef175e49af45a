"""What a baseline's own repetitions say of how much a healthy deployment varies."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median, variance
from typing import Final

from enginewatch.canary.baseline import Known
from enginewatch.canary.decision import Decision
from enginewatch.canary.paired import wilson

_NORMAL: Final = 1.4826
"""The standard deviation of normal numbers, in medians of their absolute values."""


@dataclass(frozen=True, slots=True)
class Tolerances:
    """What counts as no worse, of each test's x: see `enginewatch.canary.panel`.

    `gain` is how far x of `pass` may go below 0; `scale` what shifts of log-probability
    (nats) are divided by. None: the test has nothing to work with.
    """

    pass_: float | None
    gain: float
    steady: float | None
    logprob: float | None
    scale: float


def tolerances(
    known: Sequence[Known],
    decision: Decision,
    extra: float = 0.0,
    whole: Sequence[Known] | None = None,
) -> Tolerances:
    """Of the tasks of one test; `extra` is a drop of the pass rate that is accepted on top.

    `whole` is the baseline that they are a part of: a family of few tasks may show no
    variation by luck, and is then taken to vary as much as all of them do.
    """
    whole = known if whole is None else whole
    rates = [each.rate for each in known if each.rate is not None]
    errors = [
        math.sqrt(variance / len(rates))
        for part in (known, whole)
        if (variance := mean_variance([each.grades for each in part])) is not None and rates
    ]
    test = decision.pass_
    allowed = extra + (test.tolerance + test.errors * max(errors) if errors else test.unrepeated)
    scale = _scale(known, decision)
    return Tolerances(
        pass_=allowed if rates else None,
        gain=1 - min(rates, default=1.0),
        steady=_steady(known, whole, decision, extra),
        logprob=_logprob(known, decision, scale),
        scale=scale,
    )


def mean_variance(rows: Iterable[Sequence[float]]) -> float | None:
    """The mean over rows of the variance of a row's mean, by how its own numbers differ; None
    where no row has two. Rows of one number are taken to vary as the others do."""
    squares = [variance(row) / len(row) for row in rows if len(row) > 1]
    return math.fsum(squares) / len(squares) if squares else None


def steady_losses(known: Sequence[Known]) -> tuple[float, int]:
    """How often a task fails that always passed, in answers that did not help to choose it: each
    answer of the baseline in its turn, where the task's other answers passed. And of how many
    answers that is; (0, 0) where each task was asked once."""
    lost = tried = 0
    for each in known:
        grades = each.grades
        for place, grade in enumerate(grades):
            if len(grades) > 1 and all(grades[:place] + grades[place + 1 :]):
                tried += 1
                lost += not grade
    return lost / max(tried, 1), tried


def _steady(
    known: Sequence[Known], whole: Sequence[Known], decision: Decision, extra: float
) -> float | None:
    if not any(each.rate == 1.0 for each in known):
        return None
    test = decision.pass_
    lost, repeated = steady_losses(whole)
    if not repeated:
        return extra + test.unrepeated
    if not lost:  # a model that answers alike each time
        return extra + test.tolerance
    rate, tried = steady_losses(known)
    return extra + test.tolerance + wilson(rate, max(tried, 1), test.errors).high


def _scale(known: Sequence[Known], decision: Decision) -> float:
    test = decision.logprob
    spread = [abs(each) for each in _left_out(known)]
    if not spread:
        return test.unrepeated
    return max(test.least, test.noise * _NORMAL * median(spread))


def _logprob(known: Sequence[Known], decision: Decision, scale: float) -> float | None:
    """The mean of cut shifts that is tolerated: the test's, and how well the baseline's own mean
    is known."""
    if not any(each.logprobs for each in known):
        return None
    test = decision.logprob
    cut = [clipped(each / scale) for each in _left_out(known)]
    if not cut:
        return test.tolerance
    square = math.fsum(each * each for each in cut) / len(cut)
    return test.tolerance + test.errors * math.sqrt(square / len(cut))


def _left_out(known: Iterable[Known]) -> Iterable[float]:
    """By how much each log-probability is below the mean of the others of its task."""
    for each in known:
        values = each.logprobs
        if len(values) > 1:
            whole = math.fsum(values)
            for value in values:
                yield (whole - value) / (len(values) - 1) - value


def clipped(value: float) -> float:
    return max(-1.0, min(1.0, value))
