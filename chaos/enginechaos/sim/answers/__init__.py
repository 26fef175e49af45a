"""What the model knows: it really solves the small tasks that a canary asks, and may be damaged at
it.

One file a family. Each gives from a prompt the right answer and a way to be wrong that is like a
model's: a lost carry, a key that is off by a letter, a brace that is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from enginechaos.sim.answers import arithmetic, code, retrieval, structured, words
from enginechaos.sim.answers.solved import Solved

_FAMILIES: Final[tuple[Callable[[str], Solved | None], ...]] = (
    code.solve,
    structured.solve,
    retrieval.solve,
    words.solve,
    arithmetic.solve,
)


def solve(prompt: str) -> Solved | None:
    """None for a prompt that asks none of the tasks known here."""
    for family in _FAMILIES:
        found = family(prompt)
        if found is not None:
            return found
    return None
