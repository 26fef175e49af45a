"""Copying a line, and finding one thing in a long text."""

from __future__ import annotations

import random
import re
from typing import Final

from enginechaos.sim.answers.solved import Solved, one_line

_COPY: Final = re.compile(r"Repeat this line exactly[^\n]*\n([^\n]+)")
_ASKED: Final = re.compile(r"Which is the (.+?)\? Reply with the \w+ alone")


def solve(prompt: str) -> Solved | None:
    if found := _COPY.search(prompt):
        line = found[1].strip()
        return Solved("retrieval", line, lambda dice: _misread(line, dice))
    text = one_line(prompt)
    if asked := _ASKED.search(text):
        told = re.search(rf"[Tt]he {re.escape(asked[1])} is (\S+?)\.(?: |$)", text)
        if told:
            key = told[1]
            return Solved("retrieval", key, lambda dice: _misread(key, dice))
    return None


def _misread(text: str, dice: random.Random) -> str:
    """One letter or digit is another."""
    places = [index for index, sign in enumerate(text) if sign.isalnum()]
    at = dice.choice(places)
    signs = "0123456789" if text[at].isdigit() else "ABCDEFGHKLMNPRSTUVWXZ"
    return text[:at] + dice.choice([each for each in signs if each != text[at]]) + text[at + 1 :]
