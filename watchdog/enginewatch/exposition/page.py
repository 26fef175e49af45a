"""One page, read strictly from the first line to the last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from enginewatch.exposition.errors import PageError, shown
from enginewatch.exposition.grammar import (
    Dialect,
    Shape,
    parse_comment,
    parse_sample,
    parse_type,
    shape_of,
    unescape_help,
)
from enginewatch.exposition.layout import PageLayout
from enginewatch.exposition.limits import Limits
from enginewatch.exposition.negotiate import decode, dialect_of
from enginewatch.exposition.numbers import FloatArray, parse_value
from enginewatch.exposition.table import SeriesTable, Written
from enginewatch.model import Labels, Metadata, MetricType, Millis, Sample

_EOF: Final = "# EOF"
_LINE_ENDS: Final = "lines end with a line feed alone; this page has Windows line ends"


class Reading(NamedTuple):
    """A page's values, one for each series of its layout.

    `times` are the page's own timestamps, None where a sample has none; the whole
    is None when no sample has one, which is the rule.
    """

    layout: PageLayout
    values: FloatArray
    times: tuple[Millis | None, ...] | None


@dataclass(frozen=True, slots=True)
class Page:
    """A page as values. Of a series given twice only the first sample is in `samples`."""

    samples: tuple[Sample, ...]
    metadata: Mapping[str, Metadata]
    duplicates: int


def parse_page(body: bytes | str, content_type: str = "", limits: Limits | None = None) -> Page:
    """Read one page. Raises PageError with the line, what was found and what would be right.

    `le` of a histogram and `quantile` of a summary come in Prometheus 3's spelling:
    `le="1"` is read as `le="1.0"`.
    """
    limits = limits or Limits()
    raw = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
    limits.check_body(len(raw))
    text = decode(raw)
    dialect = dialect_of(text, content_type)
    layout, values, times = read_strictly(text.split("\n"), dialect, SeriesTable(limits))
    samples = tuple(
        Sample(layout.labels(index), float(values[index]), times[index] if times else None)
        for index in range(len(layout))
    )
    return Page(samples, layout.metadata, layout.duplicates)


def read_strictly(lines: list[str], dialect: Dialect, table: SeriesTable) -> Reading:
    """A page, split at newlines, as a new layout and its values. Raises PageError."""
    table.limits.check_lines(_count(lines))
    build = _Builder(dialect, table)
    number = 0
    try:
        for number, line in enumerate(lines, 1):
            build.add(number - 1, line)
    except PageError as failure:
        windows = lines[number - 1].endswith("\r")
        raise failure.on_line(number, _LINE_ENDS if windows else "") from None
    return build.finish(lines)


def _count(lines: list[str]) -> int:
    """How many lines a person would count: the split leaves an empty one after the last."""
    return len(lines) - (not lines[-1])


class _Builder:
    """What has been read of a page so far."""

    def __init__(self, dialect: Dialect, table: SeriesTable):
        self._dialect: Final = dialect
        self._table: Final = table
        self._shape = Shape.PLAIN
        self._ended = False
        self._samples: list[tuple[int, str, Shape]] = []
        self._names: list[str] = []
        self._values: list[float] = []
        self._times: dict[int, Millis] = {}
        self._first: dict[Labels, int] = {}
        self._metadata: dict[str, Metadata] = {}

    def add(self, index: int, line: str) -> None:
        """Take the next line. Raises PageError without a place."""
        self._table.limits.check_line(line)
        if self._usual(index, line):
            return
        start = line.lstrip(" \t")
        if start.startswith("#"):
            self._comment(line)
        elif start:
            prefix, labels, value, at = parse_sample(line, self._shape, self._dialect)
            self._sample(index, self._table.add(self._shape, prefix, labels), value, at)

    def _usual(self, index: int, line: str) -> bool:
        """Take a line that is `series value`, of a series seen before on any page.

        A text that the table knows is a whole series, so the last blank can't be one
        inside a quoted label. What is wrong with a value is left to the strict parser.
        """
        cut = line.rfind(" ") + 1
        known = self._table.get(self._shape, line[:cut]) if cut else None
        if known is None:
            return False
        try:
            value = parse_value(line[cut:])
        except PageError:
            return False
        self._sample(index, known, value, None)
        return True

    def _sample(self, index: int, series: Written, value: float, at: Millis | None) -> None:
        if self._ended:
            raise PageError(f"a sample after {_EOF}")
        place = len(self._samples)
        self._table.limits.check_samples(place + 1)
        self._samples.append((index, series.prefix, self._shape))
        self._names.append(series.labels.name)
        self._values.append(value)
        self._first.setdefault(series.labels, place)
        if at is not None:
            self._times[place] = at

    def _comment(self, line: str) -> None:
        if self._dialect is Dialect.OPENMETRICS and line.rstrip(" \t") == _EOF:
            if self._ended:
                raise PageError(f"a second {_EOF}")
            self._ended = True
            return
        comment = parse_comment(line, self._dialect)
        if comment is None:
            return
        known = self._metadata.get(comment.name, Metadata(MetricType.UNKNOWN, "", ""))
        if comment.keyword == "TYPE":
            kind = parse_type(comment.text, self._dialect)
            self._shape = shape_of(kind)
            known = known._replace(type=kind)
        elif comment.keyword == "HELP":
            known = known._replace(help=unescape_help(comment.text, self._dialect))
        else:
            known = known._replace(unit=self._unit(comment.name, comment.text))
        self._metadata[comment.name] = known

    @staticmethod
    def _unit(name: str, text: str) -> str:
        unit = text.strip(" \t")
        if unit and not name.endswith(f"_{unit}"):
            raise PageError(f"unit {shown(unit)} is not a suffix of the metric name {shown(name)}")
        return unit

    def finish(self, lines: list[str]) -> Reading:
        if self._dialect is Dialect.OPENMETRICS and not self._ended:
            raise PageError(
                f"the OpenMetrics page does not end with {_EOF}",
                where=f"line {_count(lines)}",
                hint="the page was cut off, or its Content-Type is wrong",
            )
        kept = list(self._first.values())
        layout = PageLayout(
            lines,
            samples=self._samples,
            names=self._names,
            kept=kept,
            metadata=self._metadata,
            limits=self._table.limits,
        )
        values = np.array(self._values, dtype=np.float64)
        times = tuple(self._times.get(place) for place in kept) if self._times else None
        return Reading(layout, values if not layout.duplicates else values[kept], times)
