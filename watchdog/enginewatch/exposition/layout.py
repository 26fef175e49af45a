"""What stays the same from one page of a target to the next: all but the numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import compress
from typing import Final

import numpy as np
from numpy.typing import NDArray

from enginewatch.exposition.grammar import Shape, parse_prefix
from enginewatch.exposition.numbers import FloatArray, parse_values
from enginewatch.exposition.table import SeriesTable, Written
from enginewatch.model import METRIC_NAME, Metadata

Row = tuple[int, Written, Shape]
"""A sample: the index of its line, the series, and what its labels were read by."""


class PageLayout:
    """The comments and series of a page, compared by identity.

    A page that differs in nothing but its values has the same layout, and what was
    derived from it (which series are wanted, where they are stored) holds for it too.
    Labels are kept as text, because most series of a page are never asked for.
    """

    __slots__ = (
        "__weakref__",
        "_comments",
        "_constant",
        "_is_comment",
        "_is_sample",
        "_kept",
        "_prefixes",
        "_shapes",
        "_slack",
        "_table",
        "duplicates",
        "metadata",
        "names",
        "samples",
    )

    def __init__(
        self,
        lines: list[str],
        *,
        rows: list[Row],
        kept: list[int],
        metadata: Mapping[str, Metadata],
        table: SeriesTable,
    ):
        """`rows` are the samples in order, `kept` the indexes of those that are no duplicates."""
        is_sample = bytearray(len(lines))
        for index, _, _ in rows:
            is_sample[index] = 1
        self._is_sample: Final = bytes(is_sample)
        self._is_comment: Final = bytes(1 - flag for flag in is_sample)
        self._comments: Final = list(compress(lines, self._is_comment))
        self._prefixes: Final = tuple([series.prefix for _, series, _ in rows])
        self._shapes: Final = tuple([shape for _, _, shape in rows])
        self._kept: Final[NDArray[np.intp] | None] = (
            None if len(kept) == len(rows) else np.array(kept, dtype=np.intp)
        )
        self._constant: Final = (
            max(0, len(lines) - 1) + sum(map(len, self._comments)) + sum(map(len, self._prefixes))
        )
        longest = max(map(len, self._prefixes), default=0)
        self._slack: Final = (
            table.limits.line_length - longest if table.limits.line_length else math.inf
        )
        self._table: Final = table
        self.samples: Final = len(rows)
        """Sample lines on the page, duplicates included."""
        self.duplicates: Final = len(rows) - len(kept)
        self.metadata: Final = metadata
        self.names: Final = tuple([rows[index][1].name for index in kept])
        """The metric name of each series."""

    def __len__(self) -> int:
        """The number of distinct series."""
        return len(self.names)

    def key(self, index: int) -> tuple[Shape, str]:
        """How a series is written on the page, which tells it from the others of this layout."""
        place = index if self._kept is None else int(self._kept[index])
        return self._shapes[place], self._prefixes[place]

    def keys(self) -> set[tuple[Shape, str]]:
        """How all series are written."""
        return set(zip(self._shapes, self._prefixes, strict=True))

    def series(self, index: int) -> dict[str, str]:
        """The labels of a series as the page gives them, `__name__` included."""
        shape, prefix = self.key(index)
        known = self._table.get(shape, prefix)
        name, pairs = parse_prefix(prefix, shape) if known is None else known[1:]
        return {METRIC_NAME: name, **dict(pairs)}

    def read(self, lines: list[str], size: int) -> FloatArray | None:
        """The values of a page, one for each series, if it has this layout; else None.

        `lines` is the page split at newlines, `size` its characters. None also
        stands for a page that is not plainly right: the strict parser decides then.
        """
        if len(lines) != len(self._is_sample):
            return None
        if list(compress(lines, self._is_comment)) != self._comments:
            return None
        tails = list(map(str.removeprefix, compress(lines, self._is_sample), self._prefixes))
        joined = "".join(tails)
        # A prefix that is not there removes nothing. So the lengths add up only when
        # every line began with its own, and no line needs a look by itself.
        if len(joined) != size - self._constant or len(joined) > self._slack:
            return None
        values = parse_values(tails, joined)
        return values if values is None or self._kept is None else values[self._kept]
