"""Small Python functions, as asked for by what they return."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Final

from enginechaos.sim.answers.solved import Solved, one_line

_NAME: Final = re.compile(r"Write a Python function `(\w+)\((\w+)\)`")


def solve(prompt: str) -> Solved | None:
    text = one_line(prompt)
    head = _NAME.search(text)
    if head is None:
        return None
    for pattern, write in _KNOWN:
        if found := pattern.search(text):
            body = write(*(int(each) for each in found.groups() if each is not None))
            right = f"def {head[1]}({head[2]}):\n{body}"
            return Solved("code", right, _mistaken(right))
    return None


def _count(rest: int, divisor: int) -> str:
    return f"    return sum(value % {divisor} == {rest} for value in values)"


def _window(size: int, _: int) -> str:
    return (
        f"    sums = [sum(values[i:i + {size}]) for i in range(len(values) - {size} + 1)]\n"
        "    return max(sums) if sums else None"
    )


def _encode(places: int) -> str:
    return (
        "    moved = []\n"
        "    for sign in text:\n"
        '        if "A" <= sign <= "Z":\n'
        f"            sign = chr((ord(sign) - 65 + {places}) % 26 + 65)\n"
        "        moved.append(sign)\n"
        '    return "".join(moved)'
    )


def _groups_above(floor: int, least: int) -> str:
    return (
        "    found = {value for value in values "
        f"if value > {floor} and values.count(value) >= {least}}}\n"
        "    return sorted(found)"
    )


def _groups(least: int) -> str:
    return (
        f"    found = {{value for value in values if values.count(value) >= {least}}}\n"
        "    return sorted(found)"
    )


def _digits(base: int) -> str:
    return (
        "    found = []\n"
        "    while number > 0:\n"
        f"        found.insert(0, number % {base})\n"
        f"        number //= {base}\n"
        "    return found or [0]"
    )


_KNOWN: Final[tuple[tuple[re.Pattern[str], Callable[..., str]], ...]] = (
    (re.compile(r"leave the remainder (\d+) when divided by (\d+)"), _count),
    (re.compile(r"largest sum of (\d+) neighbouring integers .+? fewer than (\d+)"), _window),
    (re.compile(r"moves every capital letter .+? (\d+) places on"), _encode),
    (re.compile(r"distinct integers above (-?\d+) that occur at least (\d+) times"), _groups_above),
    (re.compile(r"distinct integers that occur at least (\d+) times"), _groups),
    (re.compile(r"digits of the integer `\w+` \(0 or more\) in base (\d+)"), _digits),
)


def _mistaken(right: str) -> Callable[[random.Random], str]:
    """One number of the body is off by one."""

    def wrong(dice: random.Random) -> str:
        numbers = list(re.finditer(r"\b\d+\b", right))
        one = dice.choice(numbers)
        return f"{right[: one.start()]}{int(one[0]) + 1}{right[one.end() :]}"

    return wrong
