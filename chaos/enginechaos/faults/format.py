"""An engine is launched anew with a numeric format that damages its answers, not its speed."""

from __future__ import annotations

import operator
import random
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import ClassVar, Final

import httpx

from enginechaos.errors import TargetError
from enginechaos.faults.base import Evidence
from enginechaos.faults.relaunch import EndsInRelaunch
from enginechaos.target import Target

_SUMS: Final = 48
"""Of one exam, asked all at once: some faults show only in batches."""
_MANY: Final = 8
"""So many wrong sums of an exam are the fault; where a third goes wrong, 99 exams of 100."""
_SIGNS: Final[Mapping[str, Callable[[int, int], int]]] = {"+": operator.add, "*": operator.mul}


@dataclass
class DamagedFormat(EndsInRelaunch):
    """A relaunch in the format `damaged`, a row of the simulation's damage.yml; the undo is one
    in its own.

    The evidence is an exam of our own: sums (`sign` `*`: products, which most formats hurt first)
    that the engine got right before, of which it gets `least` wrong now.
    """

    damaged: str = "nvfp4-batched"
    sign: str = "+"
    least: int = _MANY
    verify_within: ClassVar[float] = 20.0
    spared: ClassVar[str] = "its format is not changed"
    verdict: ClassVar[str] = "quality_collapse"
    _dice: random.Random = field(default_factory=lambda: random.Random(7), init=False)

    def blast_radius(self, target: Target) -> str:
        return (
            f"{target.deployment} ({target.actor.place}) is launched anew with the format "
            f"{self.damaged}, and again in the undo: all its requests fail then, and between "
            "the two its answers are wrong"
        )

    def inject(self, target: Target) -> None:
        wrong = self._wrong(target)
        if wrong:
            raise TargetError(f"{wrong} of {_SUMS} {self._what} are wrong before anything was done")
        self.owe()
        target.relaunch(format=self.damaged)

    def verify(self, target: Target) -> Evidence:
        wrong = self._wrong(target)
        what = f"{wrong} of {_SUMS} {self._what} are wrong, and none was before"
        return Evidence(wrong >= self.least, what)

    @property
    def _what(self) -> str:
        return "sums" if self.sign == "+" else "products"

    def _wrong(self, target: Target) -> int:
        sums = [(self._dice.randint(100, 999), self._dice.randint(100, 999)) for _ in range(_SUMS)]
        # One client for all: to make one takes longer than an answer, and batches would be small.
        with httpx.Client(timeout=10, trust_env=False) as client, ThreadPoolExecutor(_SUMS) as pool:
            said = list(pool.map(lambda pair: _answer(client, target, self.sign, *pair), sums))
        right = _SIGNS[self.sign]
        return sum(given != right(a, b) for given, (a, b) in zip(said, sums, strict=True))


def _answer(client: httpx.Client, target: Target, sign: str, a: int, b: int) -> int | None:
    """What the engine takes for the result; None where it says no number. Raises TargetError."""
    body = {
        "model": target.model,
        "prompt": f"What is {a} {sign} {b}? Reply with the number alone.",
        "max_tokens": 16,
        "temperature": 0,
    }
    try:
        answer = client.post(f"{target.url}/v1/completions", json=body)
        answer.raise_for_status()
        text: str = answer.json()["choices"][0]["text"]
    except (httpx.HTTPError, ValueError, LookupError) as failure:
        raise TargetError(f"a sum was not answered: {failure or type(failure).__name__}") from None
    found = re.search(r"-?\d+", text)
    return int(found[0]) if found else None
