"""A task's family and its answer; and how a number goes wrong."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Solved:
    """`wrong` draws an answer that is not right. Families are named as the canary's are.

    `operation`, where there is one that matters most: `add`, `sub` or `mul`.
    """

    family: str
    right: str
    wrong: Callable[[random.Random], str]
    operation: str = ""


def off(number: int, dice: random.Random) -> int:
    """A number with one carry lost or won, as a model that has lost precision gives it."""
    places = max(1, len(str(abs(number))) - 1)
    return int(number + dice.choice((-1, 1)) * 10 ** dice.randrange(places))


def one_line(prompt: str) -> str:
    """The prompt with each run of blanks and line ends as one blank."""
    return " ".join(prompt.split())
