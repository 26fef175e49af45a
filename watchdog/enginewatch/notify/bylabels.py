"""What follows from a few labels of an alert, worked out once for each of their values.

In a storm ten thousand alerts are told apart by what no matcher asks for: instances,
ranks, GPUs. Which routes and inhibitions concern them is asked ten thousand times, and
has a few dozen answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

from enginewatch.model import Labels, Matcher

T = TypeVar("T")

MOST: Final = 10_000
"""Answers that are remembered: a matcher may ask for a label that never repeats."""


class ByLabels(Generic[T]):
    """`work_out` must look at labels of these names only, and answer the same whenever asked."""

    def __init__(self, names: Iterable[str], work_out: Callable[[Labels], T]):
        self._names: Final = tuple(sorted(set(names)))
        self._work_out: Final = work_out
        self._known: Final[dict[tuple[str, ...], T]] = {}

    def __call__(self, labels: Labels) -> T:
        values = labels.values_of(self._names)
        if values not in self._known:
            if len(self._known) >= MOST:
                self._known.clear()
            self._known[values] = self._work_out(labels)
        return self._known[values]


def asked(matchers: Iterable[Matcher]) -> set[str]:
    """The labels that decide about matchers."""
    return {matcher.name for matcher in matchers}
