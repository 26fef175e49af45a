"""Is one finished evaluation worse than another? The release gate's statistics.

Two evaluations of the same tasks are compared task by task: only tasks that
changed sides say anything, which asks for a tenth of the answers that comparing
two averages does. Where only averages are known, those are compared.

Everything is looked at once, after the end; what is watched while it runs is for
`enginewatch.canary.sequential`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, NamedTuple

_BISECTIONS: Final = 60
_EXACT_UP_TO: Final = 100_000
"""Tasks that changed sides up to which tails are summed; beyond, the normal curve is as good."""


class Interval(NamedTuple):
    """A two-sided confidence interval."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Paired:
    """Tasks counted by how the baseline and the candidate did on each.

    `lost` were right in the baseline and are wrong now, `gained` the reverse.
    A drop is a difference of pass rates, from -1 to 1; positive is worse.
    """

    both: int = 0
    lost: int = 0
    gained: int = 0
    neither: int = 0

    @classmethod
    def count(cls, outcomes: Iterable[tuple[bool, bool]]) -> Paired:
        """Of (baseline passed, candidate passed), one pair a task."""
        table = [0, 0, 0, 0]
        for before, after in outcomes:
            table[2 * (not before) + (not after)] += 1
        return cls(both=table[0], lost=table[1], gained=table[2], neither=table[3])

    @property
    def tasks(self) -> int:
        return self.both + self.lost + self.gained + self.neither

    @property
    def before(self) -> float:
        """Pass rate of the baseline; NaN without tasks."""
        return (self.both + self.lost) / self.tasks if self.tasks else math.nan

    @property
    def after(self) -> float:
        """Pass rate of the candidate; NaN without tasks."""
        return (self.both + self.gained) / self.tasks if self.tasks else math.nan

    @property
    def drop(self) -> float:
        """By how much the pass rate fell; NaN without tasks."""
        return (self.lost - self.gained) / self.tasks if self.tasks else math.nan

    def p_worse(self) -> float:
        """How likely this loss, or more, is if neither is better: McNemar's exact test, one-sided.

        Under that hypothesis a task that changed sides went either way like a coin.
        """
        return binomial_tail(self.lost, self.lost + self.gained)

    def p_changed(self) -> float:
        """The same for a change in either direction."""
        most = max(self.lost, self.gained)
        return min(1.0, 2 * binomial_tail(most, self.lost + self.gained))

    def interval(self, confidence: float = 0.95) -> Interval:
        """Of the drop: Tango's score interval, which holds its level with few tasks and at rates
        of 0 and 1 (Tango, Statistics in Medicine 17, 1998; recommended in Fagerland, Lydersen and
        Laake, Statistics in Medicine 33, 2014). (-1, 1) without tasks."""
        if not self.tasks:
            return Interval(-1.0, 1.0)
        z = NormalDist().inv_cdf(0.5 + confidence / 2)
        # The statistic falls as the assumed drop grows.
        low = _crossing(lambda drop: self._tango(drop) - z, -1.0, self.drop)
        high = _crossing(lambda drop: self._tango(drop) + z, self.drop, 1.0)
        return Interval(low, high)

    def _tango(self, drop: float) -> float:
        """How many standard errors the observed drop lies above an assumed one."""
        n, lost, gained = self.tasks, self.lost, self.gained
        a = 2.0 * n
        b = -lost - gained + (2.0 * n - lost + gained) * drop
        c = -gained * drop * (1.0 - drop)
        share = (math.sqrt(max(0.0, b * b - 4 * a * c)) - b) / (2 * a)
        variance = n * (2 * share + drop * (1.0 - drop))
        distance = lost - gained - n * drop
        if variance <= 1e-12:
            return 0.0 if abs(distance) < 1e-9 else math.copysign(math.inf, distance)
        return distance / math.sqrt(variance)


@dataclass(frozen=True, slots=True)
class Rate:
    """A pass rate of which only this is known. Raises ValueError unless 0 <= rate <= 1, n > 0."""

    rate: float
    tasks: int

    def __post_init__(self) -> None:
        if not (0.0 <= self.rate <= 1.0 and self.tasks > 0):
            raise ValueError(f"{self.rate:g} of {self.tasks} tasks is no pass rate")

    def interval(self, confidence: float = 0.95) -> Interval:
        """Wilson's score interval of the rate."""
        return wilson(self.rate, self.tasks, NormalDist().inv_cdf(0.5 + confidence / 2))


@dataclass(frozen=True, slots=True)
class Unpaired:
    """Two averages, of other tasks or of the same without their answers."""

    baseline: Rate
    candidate: Rate

    @property
    def drop(self) -> float:
        return self.baseline.rate - self.candidate.rate

    def p_worse(self) -> float:
        """How likely this loss, or more, is if neither is better: pooled z-test, one-sided."""
        n, m = self.baseline.tasks, self.candidate.tasks
        pooled = (self.baseline.rate * n + self.candidate.rate * m) / (n + m)
        error = math.sqrt(pooled * (1 - pooled) * (1 / n + 1 / m))
        return 1 - NormalDist().cdf(self.drop / error) if error > 0 else 1.0

    def interval(self, confidence: float = 0.95) -> Interval:
        """Of the drop: Newcombe's, made of the two score intervals (Statistics in Medicine 17,
        1998, method 10)."""
        before, after = self.baseline, self.candidate
        low, high = before.interval(confidence), after.interval(confidence)
        down = math.hypot(before.rate - low.low, high.high - after.rate)
        up = math.hypot(low.high - before.rate, after.rate - high.low)
        return Interval(max(-1.0, self.drop - down), min(1.0, self.drop + up))


def wilson(rate: float, tasks: int, errors: float) -> Interval:
    """Wilson's score interval of a rate, so many standard errors to each side."""
    square = errors * errors
    middle = (rate + square / (2 * tasks)) / (1 + square / tasks)
    spread = errors * math.sqrt(rate * (1 - rate) / tasks + square / (4 * tasks * tasks))
    half = spread / (1 + square / tasks)
    return Interval(max(0.0, middle - half), min(1.0, middle + half))


def binomial_tail(least: int, trials: int) -> float:
    """The chance of `least` heads or more in as many tosses of a coin."""
    if least <= 0:
        return 1.0
    if least > trials:
        return 0.0
    if trials > _EXACT_UP_TO:
        return 1 - NormalDist(trials / 2, math.sqrt(trials) / 2).cdf(least - 0.5)
    whole = math.lgamma(trials + 1) - trials * math.log(2)
    logs = [
        whole - math.lgamma(heads + 1) - math.lgamma(trials - heads + 1)
        for heads in range(least, trials + 1)
    ]
    top = max(logs)
    return min(1.0, math.exp(top) * math.fsum(math.exp(each - top) for each in logs))


def _crossing(falling: Callable[[float], float], low: float, high: float) -> float:
    """Where a falling function crosses 0 between `low` and `high`, or the end next to it."""
    if falling(low) <= 0:
        return low
    if falling(high) >= 0:
        return high
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if falling(middle) > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2
