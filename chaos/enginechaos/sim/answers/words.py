"""Small problems told in words: the steps, and a line `Answer: N`."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Final

from enginechaos.sim.answers.solved import Solved, off, one_line

_Numbers = Callable[..., int]

_KNOWN: Final[tuple[tuple[re.Pattern[str], _Numbers], ...]] = (
    (
        re.compile(r"has (\d+) boxes with (\d+) .+? in each, and gives (\d+) of them"),
        lambda boxes, each, gave: boxes * each - gave,
    ),
    (
        re.compile(
            r"earns (\d+) an hour and works (\d+) hours a day for (\d+) days, then spends (\d+)"
        ),
        lambda rate, hours, days, cost: rate * hours * days - cost,
    ),
    (
        re.compile(
            r"train goes (\d+) km an hour for (\d+) hours, "
            r"then (\d+) km an hour slower than that for (\d+) hours"
        ),
        lambda speed, first, less, second: speed * first + (speed - less) * second,
    ),
    (
        re.compile(r"evenly among (\d+) friends\. Each gets (\d+), and (\d+) remain"),
        lambda friends, each, left: 3 * (friends * each + left),
    ),
    (
        re.compile(
            r"is (\d+) years old, and \w+ is (\d+) times as old\. "
            r"How old will the two be together in (\d+) years"
        ),
        lambda age, times, years: age + age * times + 2 * years,
    ),
)


def solve(prompt: str) -> Solved | None:
    text = one_line(prompt)
    for pattern, compute in _KNOWN:
        if found := pattern.search(text):
            value = compute(*(int(each) for each in found.groups()))
            return Solved("word_problems", _told(value), _wrong(value))
    return None


def _wrong(value: int) -> Callable[[random.Random], str]:
    return lambda dice: _told(off(value, dice))


def _told(value: int) -> str:
    return f"Step by step, it comes to {value}.\nAnswer: {value}"
