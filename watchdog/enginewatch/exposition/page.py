"""One page, read strictly from the first line to the last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from enginewatch.exposition.errors import PageError, shown
from enginewatch.exposition.grammar import (
    Dialect,
    Pairs,
    Shape,
    parse_comment,
    parse_sample,
    parse_type,
    shape_of,
    unescape_help,
)
from enginewatch.exposition.layout import Frame, PageLayout, Row
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
    layout, values, times = read_strictly(split(text, limits), dialect, SeriesTable(limits))
    samples = tuple(
        Sample(Labels(layout.series(index)), float(values[index]), times[index] if times else None)
        for index in range(len(layout))
    )
    return Page(samples, layout.metadata, layout.duplicates)


def split(text: str, limits: Limits) -> list[str]:
    """The lines of a page, with an empty one after the last newline. Raises PageError."""
    # Counted first: a page of nothing but newlines would take ten times its size as a list.
    limits.check_lines(text.count("\n") + (not text.endswith("\n")))
    return text.split("\n")


def read_strictly(lines: list[str], dialect: Dialect, table: SeriesTable) -> Reading:
    """A page, split at newlines, as a new layout and its values. Raises PageError."""
    _check_lengths(lines, table.limits)
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


def _check_lengths(lines: list[str], limits: Limits) -> None:
    longest = max(map(len, lines))
    try:
        limits.check_line(longest)
    except PageError as failure:
        number = next(n for n, line in enumerate(lines, 1) if len(line) == longest)
        raise failure.on_line(number) from None


class _Builder:
    """What has been read of a page so far."""

    def __init__(self, dialect: Dialect, table: SeriesTable):
        self._dialect: Final = dialect
        self._most: Final = table.limits.samples or None
        self._table: Final = table
        self._shape: Shape = ""
        self._ended = False
        self._bare_names: set[str] = set()
        self._labels: dict[tuple[Shape, str], Pairs] = {}
        self._rows: list[Row] = []
        self._values: list[float] = []
        self._times: dict[int, Millis] = {}
        self._first: dict[tuple[str, Pairs], int] = {}
        self._metadata: dict[str, Metadata] = {}

    def add(self, index: int, line: str) -> None:
        """Take the next line. Raises PageError without a place."""
        start = line[:1]
        if start != "#" and self._usual(index, line):
            return
        if start in {" ", "\t"}:
            start = line.lstrip(" \t")[:1]
        if start == "#":
            self._comment(line)
        elif start:
            prefix, name, pairs, value, at = parse_sample(line, self._shape, self._dialect)
            series = self._table.add(self._shape, prefix, name, pairs)
            self._learn(series)
            self._sample(index, series, value, at)

    def _usual(self, index: int, line: str) -> bool:
        """Take a line that is `series value`, of which all but the value was seen before.

        What is wrong with a value is left to the strict parser.
        """
        cut = line.rfind(" ") + 1
        series = self._known(line[:cut]) if cut else None
        if series is None:
            return False
        try:
            value = parse_value(line[cut:])
        except PageError:
            return False
        self._sample(index, series, value, None)
        return True

    def _known(self, prefix: str) -> Written | None:
        """The series that this text spells, from what pages had before.

        A text that the table knows is a whole series, so the blank that it ends with
        is not one inside a quoted label. And a name and a text between braces that
        were each read on this page are good together: engines repeat both a lot.
        """
        series = self._table.get(self._shape, prefix)
        if series is None and prefix.endswith("} "):
            name, _, labels = prefix[:-2].partition("{")
            pairs = self._labels.get((self._shape, labels))
            if pairs is not None and name in self._bare_names:
                series = self._table.add(self._shape, prefix, name, pairs)
        return series

    def _learn(self, series: Written) -> None:
        """Remember the parts of a series for others on this page, if its text has them apart."""
        prefix, name, pairs = series
        if prefix.startswith(f"{name}{{") and prefix.endswith("} "):
            self._bare_names.add(name)
            self._labels[self._shape, prefix[len(name) + 1 : -2]] = pairs

    def _sample(self, index: int, series: Written, value: float, at: Millis | None) -> None:
        if self._ended:
            raise PageError(f"a sample after {_EOF}")
        place = len(self._values)
        if place == self._most:
            self._table.limits.check_samples(place + 1)
        self._rows.append((index, series, self._shape))
        self._values.append(value)
        self._first.setdefault(series[1:], place)
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
        frame = Frame.of(lines, self._rows, kept, self._metadata)
        prefixes = tuple([series.prefix for _, series, _ in self._rows])
        layout = PageLayout(frame, prefixes, self._table)
        values = np.array(self._values, dtype=np.float64)
        times = tuple(self._times.get(place) for place in kept) if self._times else None
        return Reading(layout, values if not layout.duplicates else values[kept], times)
