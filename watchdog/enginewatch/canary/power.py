"""How many answers it takes to see a drop: simulated, with the rules of `sequential` themselves.

Many deployments at once: a row each, and a column for each bet. A test holds this to
be the same arithmetic as `sequential.EProcess`, answer by answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from enginewatch.canary.decision import Decision
from enginewatch.canary.sequential import bets

Floats = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, int]], Floats]
"""x of so many (answers, deployments)."""

_BLOCK: Final = 256
_RICH: Final = 1e200


@dataclass(frozen=True, slots=True)
class Setting:
    """One test as it is set up, and how a healthy deployment's x are distributed."""

    tolerance: float
    gain: float
    alpha: float


class Needed(NamedTuple):
    """Answers until the alarm: of half of all deployments, and of nine in ten. None: more than
    were simulated."""

    half: int | None
    most: int | None


class Fleet:
    """The wealth of many deployments that are tested alike, from their first answer on."""

    def __init__(self, decision: Decision, setting: Setting, deployments: int):
        self._stake: Final = decision.stake
        self._setting: Final = setting
        self._bets: Final = np.array(bets(decision, setting.tolerance, setting.gain))
        self._stakes = np.full(
            (deployments, len(self._bets)), decision.stake.first / len(self._bets)
        )
        self.answers = 0

    def copy(self) -> Fleet:
        other = object.__new__(Fleet)
        for name, value in self.__dict__.items():
            setattr(other, name, value.copy() if isinstance(value, np.ndarray) else value)
        return other

    def take(self, x: Floats) -> Floats:
        """Each deployment's wealth after one more answer."""
        before = self._stake.reserve(self.answers)
        self.answers += 1
        reserve = self._stake.reserve(self.answers)
        self._stakes += (before - reserve) / len(self._bets)
        self._stakes *= 1.0 + (x - self._setting.tolerance)[:, None] * self._bets
        np.minimum(self._stakes, _RICH, out=self._stakes)
        wealth: Floats = reserve + self._stakes.sum(axis=1)
        return wealth

    def run(self, draw: Draw, rng: np.random.Generator, answers: int) -> npt.NDArray[np.int64]:
        """At which answer of these each deployment had its alarm; `answers` + 1 for none.
        Ends when all have."""
        deployments = len(self._stakes)
        when = np.full(deployments, answers + 1, np.int64)
        for start in range(0, answers, _BLOCK):
            block = draw(rng, (min(_BLOCK, answers - start), deployments))
            for place, x in enumerate(block):
                alarm = self.take(x) >= 1 / self._setting.alpha
                np.minimum(when, start + place + 1, out=when, where=alarm)
            if (when <= answers).all():
                break
        return when


def needed(when: npt.NDArray[np.int64], answers: int) -> Needed:
    """What to say of the answers at which alarms came, of `answers` simulated."""
    half, most = np.quantile(when, [0.5, 0.9], method="higher")
    return Needed(*(int(each) if each <= answers else None for each in (half, most)))


def flips(lost: float, gained: float = 0.0) -> Draw:
    """Answers that are worse than the baseline's this often, and better that often."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
        u = rng.random(shape)
        return (u < lost).astype(np.float64) - (u >= 1 - gained)

    return draw


def shifted(mean: float, spread: float) -> Draw:
    """Log-probabilities that fell by this on average, in units of the test's scale."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
        return np.clip(rng.normal(mean, spread, shape), -1.0, 1.0)

    return draw
