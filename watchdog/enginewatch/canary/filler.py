"""Prose that says nothing, to stand around what is to be found in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

_WHEN: Final = ("In the morning", "After lunch", "Before the rain", "Late at night", "On Monday")
_WHO: Final = (
    *("the gardener", "a young clerk", "the old captain", "my neighbour", "the night porter"),
    *("a travelling cook", "the librarian", "her cousin", "the piano tuner", "a quiet surveyor"),
)
_DID: Final = (
    *("watched", "described", "painted", "carried home", "forgot about", "asked after"),
    *("repaired", "counted", "wrapped up", "borrowed", "measured", "walked past"),
)
_WHAT: Final = (
    *("the wooden bridge", "a basket of pears", "the harbour wall", "two brass lamps"),
    *("the empty theatre", "a letter without a stamp", "the long meadow", "an unfinished boat"),
    *("the blue tram", "a box of slate", "the mill by the river", "a coat with one button"),
)
_WHY: Final = (
    *("because the weather had turned", "although nobody had asked", "and said no more of it"),
    *("while the kettle was singing", "as one does in a small town", "and went on to the station"),
)


def filler(words: int, choice: Callable[[Sequence[str]], str]) -> str:
    """About so many words, in sentences that `choice` puts together."""
    sentences: list[str] = []
    count = 0
    while count < words:
        parts = (choice(_WHEN) + ",", choice(_WHO), choice(_DID), choice(_WHAT), choice(_WHY))
        sentence = " ".join(parts) + "."
        count += sentence.count(" ") + 1
        sentences.append(sentence)
    return " ".join(sentences)
