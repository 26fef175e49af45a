"""JSON out of what a sentence says."""

from __future__ import annotations

import json
import random
import re
from typing import Any, Final

from enginechaos.sim.answers.solved import Solved, off, one_line

_RECORD: Final = re.compile(
    r"and nothing else: (\w+) from ([\w ]+?) is (\d+) years old, has the code (\w+), "
    r"and the answer to whether they are a member is (true|false)"
)
_ORDER: Final = re.compile(r'key "order" holds the text "(\d+)".+?in this order: (.+?)\.(?: |$)')
_ITEM: Final = re.compile(r"(\d+) of (\w+)")
_SORT: Final = re.compile(r"Sort these numbers, smallest first.*?: \[([-\d, ]+)\]")


def solve(prompt: str) -> Solved | None:
    text = one_line(prompt)
    if found := _RECORD.search(text):
        name, city, age, code, member = found.groups()
        return _json(
            {"name": name, "age": int(age), "city": city, "member": member == "true", "code": code}
        )
    if found := _ORDER.search(text):
        lines = [{"item": item, "count": int(count)} for count, item in _ITEM.findall(found[2])]
        return _json({"order": found[1], "lines": lines})
    if found := _SORT.search(text):
        return _json(sorted(int(each) for each in found[1].split(",")))
    return None


def _json(value: Any) -> Solved:
    right = json.dumps(value)
    return Solved("structured", right, lambda dice: _broken(right, dice))


def _broken(text: str, dice: random.Random) -> str:
    """A sign of the syntax is missing, or a number is another."""
    numbers = list(re.finditer(r"-?\d+", text))
    if numbers and dice.random() < 0.5:
        one = dice.choice(numbers)
        return text[: one.start()] + str(off(int(one[0]), dice)) + text[one.end() :]
    at = dice.choice([index for index, sign in enumerate(text) if sign in '{}[]:"'])
    return text[:at] + text[at + 1 :]
