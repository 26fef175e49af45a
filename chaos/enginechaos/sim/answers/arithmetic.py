"""Sums, products and remainders of whole numbers."""

from __future__ import annotations

import re
from typing import Final

from enginechaos.sim.answers.solved import Solved, off, one_line

_TERM: Final = r"-?\d+(?: [-+*] \d+)+"
_EXPRESSION: Final = re.compile(rf"(?:What is|Compute) ({_TERM})")
_REMAINDER: Final = re.compile(r"remainder when (\d+) is divided by (\d+)")
_HARDEST: Final = ((" * ", "mul"), (" - ", "sub"), (" + ", "add"))
_COLUMN: Final = re.compile(r"Add up these numbers: \[([-\d, ]+)\]")


def solve(prompt: str) -> Solved | None:
    text = one_line(prompt)
    if found := _EXPRESSION.search(text):
        operation = next((name for sign, name in _HARDEST if sign in found[1]), "")
        return _number(_value(found[1]), operation)
    if found := _REMAINDER.search(text):
        return _number(int(found[1]) % int(found[2]))
    if found := _COLUMN.search(text):
        return _number(sum(int(each) for each in found[1].split(",")), "add")
    return None


def _number(value: int, operation: str = "") -> Solved:
    return Solved("arithmetic", str(value), lambda dice: str(off(value, dice)), operation)


def _value(expression: str) -> int:
    """Of a sum of products, signs apart from their numbers."""
    signs = {"+": 1, "-": -1}
    total, sign, product = 0, 1, 1
    for part in expression.split(" "):
        if part in signs:
            total, sign, product = total + sign * product, signs[part], 1
        elif part != "*":
            product *= int(part)
    return total + sign * product
