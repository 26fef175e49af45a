"""What the simulated model says: words, the same for the same prompt."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from enginechaos.sim.engine import Answer

_WORDS: Final = (
    *("the", "old", "mill", "stands", "over", "river", "where", "nine", "boats", "wait"),
    *("for", "rain", "and", "two", "men", "count", "them", "again", "at", "noon"),
)


@dataclass
class Language:
    seed: int = 0

    def answer(self, prompt: str, limit: int, *, ignore_eos: bool, batch: int) -> Answer:  # noqa: ARG002
        dice = random.Random(f"{self.seed}/{prompt}")
        length = limit if ignore_eos else min(limit, dice.randint(24, 160))
        words = tuple(f" {word}" for word in dice.choices(_WORDS, k=length))
        return Answer(words, (-0.1,) * length)
