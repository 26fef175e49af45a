"""Answers that are no answers to anything: one token for ever, empty, NaN, salad, all alike.

Each is told at once, without statistics: a sound model gives none of them to a short
question. What its baseline answer does too (a base model may run on in circles) is its habit.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from enum import StrEnum
from typing import Final

from enginewatch.canary.decision import Degenerate
from enginewatch.canary.shape import compressed, distinct_words, longest_run, reserved, scripts

_LOOKED_AT: Final = 20_000
"""Characters from the beginning."""


class Fault(StrEnum):
    """What is wrong with an answer; the label `kind`."""

    EMPTY = "empty"
    NAN = "nan"
    RUN = "run"
    LOOP = "loop"
    SALAD = "salad"
    RESERVED = "reserved"
    GARBLED = "garbled"
    IDENTICAL = "identical"


def faults(text: str, rules: Degenerate) -> frozenset[Fault]:
    """What can be seen of one answer alone; `nan` and `identical` can't."""
    text = text[:_LOOKED_AT]
    if not text.strip():
        return frozenset({Fault.EMPTY})
    found = set()
    char, run, start = longest_run(text)
    if (
        run >= rules.run.least
        and char not in rules.run.but
        and run >= rules.run.share * (len(text) - start)
    ):
        found.add(Fault.RUN)
    if compressed(text) < rules.loop.compressed or distinct_words(text) < rules.loop.words:
        found.add(Fault.LOOP)
    if len(scripts(text)) >= rules.salad.scripts:
        found.add(Fault.SALAD)
    if reserved(text):
        found.add(Fault.RESERVED)
    if text.count("\ufffd") >= rules.garbled.least or "\x00" in text:
        found.add(Fault.GARBLED)
    return frozenset(found)


class Alike:
    """Finds answers that several different questions get: recent ones, of a bounded number."""

    def __init__(self, rules: Degenerate):
        self._rules: Final = rules
        self._askers: Final[OrderedDict[str, set[str]]] = OrderedDict()

    def take(self, question: str, text: str, expected: Collection[str]) -> bool:
        """Whether this answer was given to too many questions. Answers that are expected of this
        one do not count: two sums may have the same result."""
        said = text.strip()[:_LOOKED_AT]
        if len(said) < self._rules.identical.least or said in expected:
            return False
        askers = self._askers.setdefault(said, set())
        self._askers.move_to_end(said)
        askers.add(question)
        if len(self._askers) > self._rules.recent:
            self._askers.popitem(last=False)
        return len(askers) >= self._rules.identical.answers
