"""Has it become worse? A test that may look after every answer, for as long as a deployment lives.

Each answer becomes a number x: how much worse it is than the baseline's answers to
the same task, at most 1 and at least -`gain`. As long as the deployment is as good as
its baseline, the mean of x over tasks drawn at random is at most `tolerance`, however
much single answers vary. The test bets against that, and keeps a wealth that begins
at 1: a bet of size b multiplies its stake by 1 + b (x - tolerance), which is no gain on
average while nothing is wrong, whatever the distribution of x and however the past
went. So the chance that the wealth ever reaches 1/alpha is at most alpha (Ville's
inequality), with a look after each answer and no end (Waudby-Smith and Ramdas,
"Estimating means of bounded random variables by betting", JRSS B 86, 2024).

How much to bet depends on a drop that nobody knows, so bets of several sizes run side by
side; and as nobody knows when it comes, a part of the wealth is kept, and staked bit by
bit. What was staked before the fault has been lost by then; what is staked after it grows.
That is what a late fault costs: the logarithm of what is left to stake (`canary plan` says
how many answers), and not the guarantee.

Tasks must be drawn at random with replacement: a fixed order may begin with the hard ones.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from enginewatch.canary.decision import Decision

_RICH: Final = 1e200
"""Beyond this a wealth does not grow: it is certain, and must stay a finite number."""


class EProcess:
    """The wealth of bets against "the mean of x is at most `tolerance`", x from -gain to 1.

    `wealth` is an e-value after each answer: it exceeds 1/alpha with a chance of at most alpha.
    """

    __slots__ = ("_bets", "_decision", "_reserve", "_stakes", "_tolerance", "answers", "wealth")

    def __init__(self, decision: Decision, tolerance: float, gain: float):
        self._decision: Final = decision
        self._tolerance: Final = tolerance
        self._bets: Final = bets(decision, tolerance, gain)
        stake = decision.stake.first / len(self._bets)
        self._stakes = [stake] * len(self._bets)
        self._reserve = 1 - decision.stake.first
        self.answers = 0
        self.wealth = 1.0

    def take(self, x: float) -> float:
        """The wealth after one more answer."""
        self.answers += 1
        reserve = self._decision.stake.reserve(self.answers)
        stake = (self._reserve - reserve) / len(self._bets)
        worse = x - self._tolerance
        self._stakes = [
            (old + stake) * (1.0 + bet * worse)
            for old, bet in zip(self._stakes, self._bets, strict=True)
        ]
        self._reserve = reserve
        self.wealth = reserve + sum(self._stakes)
        if self.wealth > _RICH:
            self._stakes = [old * (_RICH / self.wealth) for old in self._stakes]
            self.wealth = _RICH
        return self.wealth

    def to_json(self) -> dict[str, Any]:
        return {"answers": self.answers, "stakes": self._stakes}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """As it was saved. Raises ValueError, TypeError or KeyError, and changes nothing then."""
        answers, stakes = int(saved["answers"]), [float(each) for each in saved["stakes"]]
        if (
            len(stakes) != len(self._bets)
            or answers < 0
            or not all(0 <= s <= _RICH for s in stakes)
        ):
            raise ValueError("of other bets")
        self.answers, self._stakes = answers, stakes
        self._reserve = self._decision.stake.reserve(answers)
        self.wealth = self._reserve + sum(stakes)


def bets(decision: Decision, tolerance: float, gain: float) -> list[float]:
    """The sizes of the bets: fractions of the one that the best answer would ruin."""
    return [size / (gain + tolerance) for size in decision.bets]


class Watch:
    """One test over a life: evidence, an alarm that stays until the opposite is shown, and again.

    `evidence` is 1 where the alarm is raised, on a logarithmic scale; while the alarm lasts
    it does not fall.
    """

    def __init__(self, decision: Decision, *, tolerance: float, gain: float, alpha: float):
        self._decision: Final = decision
        self.tolerance: Final = tolerance
        self._gain: Final = gain
        self._threshold: Final = math.log(1 / alpha)
        self._process = EProcess(decision, tolerance, gain)
        self._recent: Final[deque[float]] = deque(maxlen=decision.recovery.recent)
        self._highest = 0.0
        self._recovered = 1.0
        self._lost, self._since = 0.0, 0
        self._largest = 0.0
        self.alarm = False
        self.answers = 0

    @property
    def evidence(self) -> float:
        now = math.log(max(self._process.wealth, 1e-300)) / self._threshold
        return max(self._highest, now) if self.alarm else max(0.0, now)

    @property
    def drop(self) -> float | None:
        """The mean of the recent answers' x; None before the first."""
        return math.fsum(self._recent) / len(self._recent) if self._recent else None

    def take(self, x: float) -> bool:
        """Count one answer, and say whether it raised or ended the alarm.

        Raises ValueError for an x that is outside of what was promised.
        """
        if not -self._gain - 1e-9 <= x <= 1 + 1e-9:
            raise ValueError(f"{x} is not from {-self._gain} to 1")
        self.answers += 1
        self._recent.append(x)
        self._lost, self._since = self._lost + x, self._since + 1
        wealth = self._process.take(x)
        if self.alarm:
            self._highest = self.evidence
            return self._may_end(x)
        if wealth <= 1.0:  # nothing has begun yet
            self._lost, self._since = 0.0, 0
        self.alarm = self.evidence >= 1.0
        self._highest, self._recovered = self.evidence if self.alarm else 0.0, 1.0
        self._largest = 0.0
        return self.alarm

    def _may_end(self, x: float) -> bool:
        """Bets against "half of the drop is still there"; each ruin begins anew.

        The drop is the largest mean since the evidence began to grow: what comes after the
        fault must not make it smaller.
        """
        mean = self._lost / (self._since + self._decision.recovery.prior)
        self._largest = max(self._largest, mean)
        half = max(self._largest, 2 * self.tolerance) / 2
        largest = self._decision.recovery.bet / (1 - min(half, 0.99))
        self._recovered = max(1.0, self._recovered * (1 + largest * (half - x)))
        if self._recovered < self._decision.recovery.level:
            return False
        self.alarm, self._highest = False, 0.0
        self._recent.clear()
        self._lost, self._since = 0.0, 0
        self._process = EProcess(self._decision, self.tolerance, self._gain)
        return True

    def to_json(self) -> dict[str, Any]:
        return {
            "process": self._process.to_json(),
            "recent": list(self._recent),
            "alarm": self.alarm,
            "highest": self._highest,
            "recovered": self._recovered,
            "lost": [self._lost, self._since, self._largest],
            "answers": self.answers,
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """As it was saved, by a watch of the same parameters. Raises ValueError, TypeError or
        KeyError."""
        recent = [float(x) for x in saved["recent"]]
        highest, recovered = float(saved["highest"]), float(saved["recovered"])
        answers, alarm = int(saved["answers"]), bool(saved["alarm"])
        lost, since, largest = saved["lost"]
        lost, since, largest = float(lost), int(since), float(largest)
        self._process.restore(saved["process"])
        self._recent.extend(recent)
        self._highest, self._recovered, self.alarm = highest, recovered, alarm
        self._lost, self._since, self._largest = lost, since, largest
        self.answers = answers
