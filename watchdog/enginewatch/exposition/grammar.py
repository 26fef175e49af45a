"""The grammar of one line: a sample, or a HELP, TYPE or UNIT comment.

It takes what Prometheus' own lexer takes (model/textparse/promlex.l): any blanks
between tokens, a trailing or a missing comma between labels, unknown escapes kept
as they stand. Two differences: OpenMetrics lines may be spaced as freely as 0.0.4's,
and a bare name is followed by a blank (Prometheus reads `a+5` as a sample).
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from enginewatch.exposition.errors import PageError, shown
from enginewatch.exposition.numbers import (
    openmetrics_float,
    parse_millis,
    parse_seconds,
    parse_value,
)
from enginewatch.model import METRIC_NAME, MetricType, Millis


class Dialect(StrEnum):
    TEXT = "Prometheus text 0.0.4"
    OPENMETRICS = "OpenMetrics 1.0"


Shape = Literal["", "le", "quantile"]
"""The label whose value is a number, by what the last TYPE line said: `le` of a histogram,
`quantile` of a summary, none otherwise. Prometheus 3 rewrites it to one spelling, so that
`le="1"` and `le="1.0"` are one series."""

Pairs = tuple[tuple[str, str], ...]
"""The labels of a series but its name: sorted, none empty, so that equal sets are equal."""


class RawSample(NamedTuple):
    """A sample line taken apart. `prefix` is the line up to its value, blanks included."""

    prefix: str
    name: str
    pairs: Pairs
    value: float
    at: Millis | None


class Comment(NamedTuple):
    keyword: str
    name: str
    text: str


_QUOTED: Final = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_NAME: Final = re.compile(r"[ \t]*([a-zA-Z_:][a-zA-Z0-9_:]*)?[ \t]*")
_LABEL: Final = re.compile(
    rf"[ \t]*([a-zA-Z_][a-zA-Z0-9_]*|{_QUOTED})[ \t]*(?:=[ \t]*({_QUOTED})[ \t]*)?"
)
_USUAL: Final = re.compile(
    r"([a-zA-Z_:][a-zA-Z0-9_:]*)"
    r'\{((?:[a-zA-Z_][a-zA-Z0-9_]*="[^"\\]*",?)+)\} ([^ \t{#][^ \t{]*)'
)
"""A sample as every client library writes it: no escapes, no blanks, no timestamp."""
_PAIR: Final = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="([^"\\]*)"')
_BLANKS: Final = re.compile(r"[ \t]*")
_VALUE: Final = re.compile(r"[ \t]*([^{ \t#][^{ \t]*)[ \t]*")
_TIME: Final = re.compile(r"([^ \t#][^ \t]*)[ \t]*")
_ESCAPE: Final = re.compile(r'\\([\\"n])')
_COMMENT: Final = re.compile(
    rf"[ \t]*#[ \t]+(HELP|TYPE|UNIT)[ \t]+([a-zA-Z_:][a-zA-Z0-9_:]*|{_QUOTED})(?:[ \t](.*))?"
)
_KEYWORD: Final = re.compile(r"[ \t]*#[ \t]+(HELP|TYPE|UNIT)[ \t]")

_TYPES: Final = {
    Dialect.TEXT: {
        "counter": MetricType.COUNTER,
        "gauge": MetricType.GAUGE,
        "histogram": MetricType.HISTOGRAM,
        "summary": MetricType.SUMMARY,
        "untyped": MetricType.UNKNOWN,
    },
    Dialect.OPENMETRICS: {
        "counter": MetricType.COUNTER,
        "gauge": MetricType.GAUGE,
        "histogram": MetricType.HISTOGRAM,
        "summary": MetricType.SUMMARY,
        "info": MetricType.GAUGE,
        "stateset": MetricType.GAUGE,
        "gaugehistogram": MetricType.UNKNOWN,
        "unknown": MetricType.UNKNOWN,
    },
}


def parse_type(text: str, dialect: Dialect) -> MetricType:
    """The type that a TYPE line states. Raises PageError."""
    types = _TYPES[dialect]
    try:
        return types[text.strip(" \t")]
    except KeyError:
        raise PageError(
            f"{shown(text)} is not a metric type", hint=f"one of {', '.join(types)}"
        ) from None


def shape_of(kind: MetricType) -> Shape:
    if kind is MetricType.HISTOGRAM:
        return "le"
    return "quantile" if kind is MetricType.SUMMARY else ""


def parse_comment(line: str, dialect: Dialect) -> Comment | None:
    """HELP, TYPE or (in OpenMetrics) UNIT; None for any other comment. Raises PageError."""
    found = _COMMENT.fullmatch(line)
    if found is None:
        keyword = _KEYWORD.match(line)
        if keyword is None or (keyword[1] == "UNIT" and dialect is Dialect.TEXT):
            return None
        raise PageError(
            f"{keyword[1]} is not followed by a metric name: {shown(line[keyword.end() :])}"
        )
    word, name, text = found.groups(default="")
    if word == "UNIT" and dialect is Dialect.TEXT:
        return None
    return Comment(word, _unquote(name) if name.startswith('"') else name, text)


def parse_sample(line: str, shape: Shape, dialect: Dialect) -> RawSample:
    """A sample line. Raises PageError without a place, which the caller knows."""
    usual = _USUAL.fullmatch(line)
    if usual is not None:
        labels = _PAIR.findall(usual[2])
        given = dict(labels)
        # What is wrong with these names, the long way says.
        if len(given) == len(labels) and METRIC_NAME not in given:
            pairs = _canonical(given, shape)
            return RawSample(line[: usual.start(3)], usual[1], pairs, parse_value(usual[3]), None)
    name, pairs, end = _series(line, shape)
    found = _VALUE.match(line, end)
    if found is None:
        raise PageError(
            f"no value after {shown(line[:end].strip())}", hint="a sample is `name{labels} value`"
        )
    value = parse_value(found[1])
    at, rest = _timestamp(line, found.end(), dialect)
    if rest < len(line):
        if dialect is Dialect.TEXT or line[rest] != "#":
            raise PageError(f"unexpected {shown(line[rest:])} after the sample")
        _exemplar(line, rest + 1)
    return RawSample(line[: found.start(1)], name, pairs, value, at)


def parse_prefix(prefix: str, shape: Shape) -> tuple[str, Pairs]:
    """The series that a RawSample's `prefix` spells."""
    name, pairs, _ = _series(prefix, shape)
    return name, pairs


def _series(line: str, shape: Shape) -> tuple[str, Pairs, int]:
    """The series a line starts with, and where it ends."""
    found = _NAME.match(line)
    assert found is not None
    name, end = found[1] or "", found.end()
    if not line.startswith("{", end):
        if not name:
            raise PageError(f"a metric name is expected, found {shown(line.strip())}")
        if end == found.end(1) < len(line):
            raise PageError(f"{shown(line[end])} can't stand in the metric name {shown(line)}")
        return name, (), end
    given, name, end = _braces(line, end, name)
    if not name:
        raise PageError(f"no metric name in {shown(line[:end].strip())}")
    return name, _canonical(given, shape), end


def _canonical(given: dict[str, str], shape: Shape) -> Pairs:
    if shape and shape in given:
        given[shape] = _as_float_label(given[shape])
    return tuple(sorted(pair for pair in given.items() if pair[1]))


def _braces(line: str, start: int, name: str) -> tuple[dict[str, str], str, int]:
    """The labels between braces, the metric name (which may stand among them), and the end."""
    pairs: dict[str, str] = {}
    at = _skip_blanks(line, start + 1)
    while not line.startswith("}", at):
        found = _LABEL.match(line, at)
        if found is None:
            raise _label_error(line, at)
        key, quoted = found.groups()
        at = found.end()
        if quoted is None:
            # A quoted text without a value is the metric name: {"a.b", x="y"} 1
            if not key.startswith('"') or line[at : at + 1] not in {",", "}"}:
                raise _value_error(line, at, key)
            if name:
                raise PageError(f"two metric names, {shown(name)} and {key}")
            name = _unquote(key)
        else:
            if key.startswith('"'):
                key = _unquote(key)
            if key in pairs:
                raise PageError(f"label {shown(key)} is given twice")
            if key == METRIC_NAME or not key:
                raise PageError(f"{shown(key)} is not a label name")
            pairs[key] = _unquote(quoted)
        if line.startswith(",", at):
            at = _skip_blanks(line, at + 1)
    return pairs, name, _skip_blanks(line, at + 1)


def _skip_blanks(line: str, at: int) -> int:
    found = _BLANKS.match(line, at)
    return found.end() if found else at


def _label_error(line: str, at: int) -> PageError:
    if at >= len(line):
        return PageError("the labels are not closed by }")
    if line[at] == '"':
        return PageError(f"a quoted text is not closed: {shown(line[at:])}")
    return PageError(f"a label name is expected, found {shown(line[at:])}")


def _value_error(line: str, at: int, key: str) -> PageError:
    after = line[at:]
    if after.startswith("=") and after[1:].lstrip(" \t").startswith('"'):
        return PageError(f"the value of label {shown(key)} is not closed by a quote")
    if after.startswith("="):
        return PageError(f"the value of label {shown(key)} is not in double quotes")
    return PageError(f"label {shown(key)} is not followed by =")


def _unquote(quoted: str) -> str:
    text = quoted[1:-1]
    if "\\" in text:
        return _ESCAPE.sub(lambda m: "\n" if m[1] == "n" else m[1], text)
    return text


def _as_float_label(text: str) -> str:
    # The same few bounds come again on every page; what is long is no bound.
    return _remembered_float_label(text) if len(text) < 32 else _float_label(text)


@lru_cache(4096)
def _remembered_float_label(text: str) -> str:
    return _float_label(text)


def _float_label(text: str) -> str:
    try:
        return openmetrics_float(parse_value(text))
    except PageError:
        return text  # as Prometheus: what is no number stays as it is


def _timestamp(line: str, start: int, dialect: Dialect) -> tuple[Millis | None, int]:
    found = _TIME.match(line, start)
    if found is None:
        return None, start
    parse = parse_millis if dialect is Dialect.TEXT else parse_seconds
    return parse(found[1]), found.end()


def _exemplar(line: str, start: int) -> None:
    """Check ` {labels} value [time]` and forget it."""
    start = _skip_blanks(line, start)
    if not line.startswith("{", start):
        raise PageError(f"an exemplar starts with labels, found {shown(line[start:])}")
    _, name, end = _braces(line, start, "")
    found = _VALUE.match(line, end)
    if name or found is None:
        raise PageError(f"not an exemplar: {shown(line[start:])}")
    parse_value(found[1])
    _, rest = _timestamp(line, found.end(), Dialect.OPENMETRICS)
    if rest < len(line):
        raise PageError(f"unexpected {shown(line[rest:])} after the exemplar")


def unescape_help(text: str, dialect: Dialect) -> str:
    """The text of a HELP line; OpenMetrics escapes quotes too."""
    if "\\" not in text:
        return text
    known = _ESCAPE if dialect is Dialect.OPENMETRICS else _HELP_ESCAPE
    return known.sub(lambda m: "\n" if m[1] == "n" else m[1], text)


_HELP_ESCAPE: Final = re.compile(r"\\([\\n])")
