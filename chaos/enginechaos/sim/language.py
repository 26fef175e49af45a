"""What the simulated model says: it solves what it can, says words else, and is damaged as its
format is.

Alone in a step it says the same to the same prompt every time. In a batch the dice are thrown anew
for each answer, because sums in another order round another way.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Final

from enginechaos.sim.answers import solve
from enginechaos.sim.answers.solved import Solved
from enginechaos.sim.damage import Damage, Harm
from enginechaos.sim.engine import Answer
from enginechaos.sim.tokens import pieces

_WORDS: Final = (
    *("the", "old", "mill", "stands", "over", "river", "where", "nine", "boats", "wait"),
    *("for", "rain", "and", "two", "men", "count", "them", "again", "at", "noon"),
)
_SURE: Final = 0.002
"""Mean of the nats that a token of an answer it knows is short of certainty."""
_UNSURE: Final = 0.8
"""Of a word that might have been another."""


@dataclass
class Language:
    seed: int = 0
    damage: Damage = field(default_factory=lambda: Damage(Harm(), {}))
    _answers: int = 0

    def answer(self, prompt: str, limit: int, *, ignore_eos: bool, batch: int) -> Answer:
        """At most `limit` tokens; just as many where the end of an answer does not end it."""
        task = None if ignore_eos else solve(prompt)
        if task is None:
            dice = random.Random(f"{self.seed}/{prompt}")
            length = limit if ignore_eos else min(limit, dice.randint(24, 160))
            words = tuple(f" {word}" for word in dice.choices(_WORDS, k=length))
            return Answer(words, tuple(-dice.expovariate(1 / _UNSURE) for _ in words))
        self._answers += 1
        nonce = self._answers if batch > 1 else 0
        dice = random.Random(f"{self.seed}/{nonce}/{prompt}")
        harm = self._harm(task, batch)
        text = task.wrong(dice) if dice.random() < harm.wrong else task.right
        said = tuple(pieces(text)[:limit])
        return Answer(said, self._logprobs(len(said), harm, dice))

    def likelihood(self, prompt: str, batch: int) -> tuple[float, ...]:
        """Log-probabilities of the prompt's own tokens, as `echo` gives them."""
        task = solve(prompt)
        harm = self._harm(task, batch)
        dice = random.Random(f"{self.seed}/echo/{prompt}")
        return self._logprobs(len(pieces(prompt)), harm, dice)

    def _harm(self, task: Solved | None, batch: int) -> Harm:
        known = self.damage.of(task.family, task.operation) if task else self.damage.default
        return known.at(batch)

    def _logprobs(self, count: int, harm: Harm, dice: random.Random) -> tuple[float, ...]:
        """Damage falls on few tokens and hard: its mean is what the format's row says."""
        return tuple(
            -dice.expovariate(1 / _SURE) + harm.logprob * dice.expovariate(1) for _ in range(count)
        )
