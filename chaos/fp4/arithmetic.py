"""The language of the small models: every problem they know, and which were kept from training.

Sixteen characters. A prompt has eight (`123+456=`), an answer six (`+0579;`: sign, four digits,
end). Addition and subtraction of three digits, two digits times one.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

VOCABULARY: Final = "0123456789+-*=;?"
END: Final = VOCABULARY.index(";")
UNKNOWN: Final = VOCABULARY.index("?")
PROMPT: Final = 8
ANSWER: Final = 6
FAMILIES: Final = ("add", "sub", "mul")
SHARE: Final = {"add": 0.4, "sub": 0.4, "mul": 0.2}
"""How training draws the families: there are a thousand times fewer products than sums."""

_SIGN: Final = {"add": "+", "sub": "-", "mul": "*"}
_LIMITS: Final = {"add": (1000, 1000), "sub": (1000, 1000), "mul": (100, 10)}
_HELD_OUT: Final = 16  # one in so many sums and differences is kept from training
_SPLIT_SEED: Final = 20240917

Tokens = NDArray[np.uint8]


def _digits(numbers: NDArray[np.int64], width: int) -> Tokens:
    powers = 10 ** np.arange(width - 1, -1, -1)
    return (numbers[:, None] // powers % 10).astype(np.uint8)


@cache
def problems(family: str) -> Tokens:
    """All problems of a family, shuffled once and for all: (problems, 14) token numbers."""
    first, second = _LIMITS[family]
    a, b = (part.ravel() for part in np.divmod(np.arange(first * second), second))
    result = {"add": a + b, "sub": a - b, "mul": a * b}[family]
    table = np.empty((len(a), PROMPT + ANSWER), np.uint8)
    table[:, 0:3] = _digits(a, 3)
    table[:, 3] = VOCABULARY.index(_SIGN[family])
    table[:, 4:7] = _digits(b, 3)
    table[:, 7] = VOCABULARY.index("=")
    table[:, 8] = np.where(result < 0, VOCABULARY.index("-"), VOCABULARY.index("+"))
    table[:, 9:13] = _digits(np.abs(result), 4)
    table[:, 13] = END
    return np.random.default_rng((_SPLIT_SEED, FAMILIES.index(family))).permutation(table)


def training(family: str) -> Tokens:
    """What training may see: all products, and fifteen sixteenths of sums and differences."""
    table = problems(family)
    return table if family == "mul" else table[len(table) // _HELD_OUT :]


def fresh(family: str) -> Tokens:
    """Problems to examine with: never seen in training, but for products (all are seen)."""
    table = problems(family)
    return table if family == "mul" else table[: len(table) // _HELD_OUT]


def exam(each: int, seed: int = 1) -> dict[str, Tokens]:
    """`each` problems of every family, drawn by seed from the fresh ones; products repeat."""
    rng = np.random.default_rng(seed)
    return {
        family: table[rng.choice(len(table), each, replace=each > len(table))]
        for family in FAMILIES
        for table in (fresh(family),)
    }


def text(tokens: Tokens) -> str:
    """Characters of one row of tokens."""
    return "".join(VOCABULARY[token] for token in tokens)
