"""The pages of one target, each read at the price of its numbers once its layout is known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from weakref import WeakValueDictionary

from enginewatch.exposition.grammar import Dialect
from enginewatch.exposition.kin import KinLayout, layout_by_kin
from enginewatch.exposition.layout import PageLayout
from enginewatch.exposition.limits import Limits
from enginewatch.exposition.negotiate import decode, dialect_of
from enginewatch.exposition.page import Reading, read_strictly, split
from enginewatch.exposition.table import SeriesTable

_REMEMBERED: Final = 4
"""Layouts a reader keeps. Several worker processes behind one port answer in turn,
each with its own set of series."""

_Signature = tuple[Dialect, int, str, str]
_Kind = tuple[Dialect, int, str]


class PageCache:
    """What readers under the same limits share: parsed series, and whole layouts.

    Layouts are held weakly, by a few of their lines: they live as long as some
    reader uses them.
    """

    def __init__(self, limits: Limits | None = None):
        self.limits: Final = limits or Limits()
        self.table: Final = SeriesTable(self.limits)
        self._layouts: Final[WeakValueDictionary[_Signature, PageLayout]] = WeakValueDictionary()
        self._kinds: Final[WeakValueDictionary[_Kind, PageLayout]] = WeakValueDictionary()

    def __len__(self) -> int:
        """How many layouts are in use."""
        return len(self._layouts)

    def candidates(self, signature: _Signature, lines: list[str]) -> Iterator[PageLayout]:
        """Layouts that a page may have: one in use, then one made after a page of its kind."""
        known = self._layouts.get(signature)
        if known is not None:
            yield known
        base = self._kinds.get(_kind(signature))
        made = base and layout_by_kin(base, lines, signature[0])
        if made is not None:
            yield made

    def add(self, signature: _Signature, layout: PageLayout) -> None:
        self._layouts[signature] = layout
        if not isinstance(layout, KinLayout):
            self._kinds[_kind(signature)] = layout


class PageReader:
    """Reads the pages of one target. Not to be used from two threads at once."""

    def __init__(self, cache: PageCache | None = None):
        self._cache: Final = PageCache() if cache is None else cache
        self._layouts: list[tuple[Dialect, PageLayout]] = []

    def read(self, body: bytes, content_type: str = "") -> Reading:
        """Read a page. Raises PageError, as `parse_page` on the same page would.

        The layout of the result is the same object as long as nothing but values
        changed, and is shared with other targets whose pages look the same.
        """
        self._cache.limits.check_body(len(body))
        text = decode(body)
        dialect = dialect_of(text, content_type)
        lines = split(text, self._cache.limits)
        for place, (remembered, layout) in enumerate(self._layouts):
            if remembered is dialect:
                values = layout.read(lines, len(text))
                if values is not None:
                    if place:
                        self._remember(dialect, layout)
                    return Reading(layout, values, None)
        signature = _signature(dialect, lines)
        for shared in self._cache.candidates(signature, lines):
            values = shared.read(lines, len(text))
            if values is not None:
                self._cache.add(signature, shared)
                self._remember(dialect, shared)
                return Reading(shared, values, None)
        reading = read_strictly(lines, dialect, self._cache.table)
        if reading.times is None:  # a layout with timestamps never fits a later page
            self._cache.add(signature, reading.layout)
            self._remember(dialect, reading.layout)
        return reading

    def _remember(self, dialect: Dialect, layout: PageLayout) -> None:
        others = [entry for entry in self._layouts if entry[1] is not layout]
        self._layouts = [(dialect, layout), *others[: _REMEMBERED - 1]]


def _kind(signature: _Signature) -> _Kind:
    """The pages of one kind have as many lines, and the same metric in the middle."""
    dialect, lines, middle, _ = signature
    return dialect, lines, middle.partition("{")[0]


def _signature(dialect: Dialect, lines: list[str]) -> _Signature:
    """What tells most layouts apart: the number of lines, the series in the middle and the last."""
    middle = lines[len(lines) // 2].rpartition(" ")[0]
    last = next((line for line in reversed(lines) if line and line[0] != "#"), "")
    return dialect, len(lines), middle, last.rpartition(" ")[0]
