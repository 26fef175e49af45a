"""Series as they were written on earlier pages, shared between targets: text -> labels."""

from __future__ import annotations

import sys
from typing import Final, NamedTuple

from enginewatch.exposition.grammar import Pairs, Shape
from enginewatch.exposition.limits import Limits

_GENERATION: Final = 2 * 1024 * 1024
"""Characters of series text in one generation: some 16,000 series, 40 pages of vLLM, 7 MiB."""


class Written(NamedTuple):
    """A series that passed the strict parser. `prefix` is the one copy of its text that is kept."""

    prefix: str
    name: str
    pairs: Pairs


class SeriesTable:
    """Remembers series that were parsed and passed the limits.

    Replicas of one deployment write the same series, so the second of a thousand
    costs look-ups only. Bounded: there are two generations, a full one replaces
    the older, and what is used moves to the younger. A page with ever new labels
    displaces what others could have shared, and nothing else: a target's own
    layout does not depend on this table.
    """

    __slots__ = ("_harmless", "_old", "_size", "_young", "limits")

    def __init__(self, limits: Limits):
        self.limits: Final = limits
        self._young: dict[tuple[Shape, str], Written] = {}
        self._old: dict[tuple[Shape, str], Written] = {}
        self._size = 0
        self._harmless: Final = limits.harmless

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def get(self, shape: Shape, prefix: str) -> Written | None:
        key = (shape, prefix)
        found = self._young.get(key)
        if found is None:
            found = self._old.get(key)
            if found is not None:
                self._put(key, found)
        return found

    def add(self, shape: Shape, prefix: str, name: str, pairs: Pairs) -> Written:
        """Remember a series. Raises PageError when it exceeds a limit."""
        if len(prefix) > self._harmless:
            self.limits.check_labels(name, pairs)
        written = Written(prefix, sys.intern(name), pairs)
        self._put((shape, prefix), written)
        return written

    def _put(self, key: tuple[Shape, str], written: Written) -> None:
        # Readers in two threads may do this at once: each step leaves a valid table,
        # and the worst that a race can do is to forget a few series.
        if self._size >= _GENERATION:
            self._old, self._young, self._size = self._young, {}, 0
        self._young[key] = written
        self._size += len(written.prefix)
