"""What stays the same from one page of a target to the next: all but the numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """What targets of a kind have in common: all but label values and numbers."""

    is_sample: bytes
    is_comment: bytes
    """By line, 1 for a sample and 0 for anything else; and the other way round."""
    comments: list[str]
    shapes: tuple[Shape, ...]
    """What the labels of each sample were read by."""
    kept: NDArray[np.intp] | None
    """The samples that are no duplicates; None where none is one."""
    names: tuple[str, ...]
    """The metric name of each series."""
    metadata: Mapping[str, Metadata]

    @classmethod
    def of(
        cls, lines: list[str], rows: list[Row], kept: list[int], metadata: Mapping[str, Metadata]
    ) -> Frame:
        """`rows` are the samples in order, `kept` the indexes of those that are no duplicates."""
        is_sample = bytearray(len(lines))
        for index, _, _ in rows:
            is_sample[index] = 1
        is_comment = bytes(1 - flag for flag in is_sample)
        return cls(
            is_sample=bytes(is_sample),
            is_comment=is_comment,
            comments=list(compress(lines, is_comment)),
            shapes=tuple([shape for _, _, shape in rows]),
            kept=None if len(kept) == len(rows) else np.array(kept, dtype=np.intp),
            names=tuple([rows[index][1].name for index in kept]),
            metadata=metadata,
        )

    def fits(self, lines: list[str]) -> bool:
        """Whether a page has the same comments at the same places."""
        return (
            len(lines) == len(self.is_sample)
            and list(compress(lines, self.is_comment)) == self.comments
        )


class PageLayout:
    """The comments and series of a page, compared by identity.

    A page that differs in nothing but its values has the same layout, and what was
    derived from it (which series are wanted, where they are stored) holds for it too.
    Labels are kept as text, because most series of a page are never asked for.
    """

    __slots__ = ("__weakref__", "_constant", "_slack", "frame", "prefixes", "table")

    def __init__(self, frame: Frame, prefixes: tuple[str, ...], table: SeriesTable):
        """`prefixes` are the sample lines in order, each up to its value."""
        self.frame: Final = frame
        self.prefixes: Final = prefixes
        self.table: Final = table
        lines = max(0, len(frame.is_sample) - 1)
        self._constant: Final = lines + sum(map(len, frame.comments)) + sum(map(len, prefixes))
        longest = max(map(len, prefixes), default=0)
        limit = table.limits.line_length
        self._slack: Final = limit - longest if limit else math.inf

    @property
    def samples(self) -> int:
        """Sample lines on the page, duplicates included."""
        return len(self.prefixes)

    @property
    def duplicates(self) -> int:
        return len(self.prefixes) - len(self.frame.names)

    @property
    def metadata(self) -> Mapping[str, Metadata]:
        return self.frame.metadata

    @property
    def names(self) -> tuple[str, ...]:
        """The metric name of each series."""
        return self.frame.names

    def __len__(self) -> int:
        """The number of distinct series."""
        return len(self.frame.names)

    def key(self, index: int) -> tuple[Shape, str]:
        """How a series is written on the page, which tells it from the others of this layout."""
        kept = self.frame.kept
        place = index if kept is None else int(kept[index])
        return self.frame.shapes[place], self.prefixes[place]

    def keys(self) -> set[tuple[Shape, str]]:
        """How all series are written."""
        return set(zip(self.frame.shapes, self.prefixes, strict=True))

    def series(self, index: int) -> dict[str, str]:
        """The labels of a series as the page gives them, `__name__` included."""
        shape, prefix = self.key(index)
        known = self.table.get(shape, prefix)
        name, pairs = parse_prefix(prefix, shape) if known is None else known[1:]
        return {METRIC_NAME: name, **dict(pairs)}

    def read(self, lines: list[str], size: int) -> FloatArray | None:
        """The values of a page, one for each series, if it has this layout; else None.

        `lines` is the page split at newlines, `size` its characters. None also
        stands for a page that is not plainly right: the strict parser decides then.
        """
        frame = self.frame
        if not frame.fits(lines):
            return None
        tails = list(map(str.removeprefix, compress(lines, frame.is_sample), self.prefixes))
        joined = "".join(tails)
        # A prefix that is not there removes nothing. So the lengths add up only when
        # every line began with its own, and no line needs a look by itself.
        if len(joined) != size - self._constant or len(joined) > self._slack:
            return None
        values = parse_values(tails, joined)
        return values if values is None or frame.kept is None else values[frame.kept]
