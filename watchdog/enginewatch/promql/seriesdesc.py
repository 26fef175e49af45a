"""Series as promtool's unit tests and Prometheus' test scripts write them.

A description, `up{job="a"} 0+1x5 _ stale`, is a metric and its values, one an interval.
"""

from __future__ import annotations

import re
from typing import Final, NoReturn

from enginewatch.model import METRIC_NAME, STALE_NAN, Labels
from enginewatch.promql.ast import Position
from enginewatch.promql.cursor import Cursor
from enginewatch.promql.errors import PromQLError
from enginewatch.promql.lexer import Kind
from enginewatch.promql.literals import parse_number
from enginewatch.promql.selectors import string_value

MAX_VALUES: Final = 1_000_000
"""The most values of one series: a slip in a repetition must not fill the memory."""

_METRIC: Final = re.compile(
    r"""\s*+ (?: [a-zA-Z_:][a-zA-Z0-9_:]*+ )?+ \s*+
    (?: \{ (?: [^"'`}] | "(?:[^"\\]|\\.)*+" | '(?:[^'\\]|\\.)*+' | `[^`]*+` )*+ \} )?+""",
    re.VERBOSE | re.DOTALL,
)
# No hexadecimal: here `0x10` is 0 and ten more, as in Prometheus.
_NUMBER = r"""(?: (?i:inf|nan)
    | (?: [0-9]++\.?[0-9]*+ | \.[0-9]++ ) (?: [eE][+-]?[0-9]++ )?+ )"""
_ITEM: Final = re.compile(
    rf"""(?: (?P<omitted>_) | (?P<stale>stale)
        | (?P<value>[+-]?{_NUMBER}) (?P<step>[+-]{_NUMBER})?+ )
    (?: x (?P<times>[0-9]++) )?+""",
    re.VERBOSE,
)

Value = float | None
"""One value of a series; None where there is no sample, STALE_NAN where the series ends."""


def parse_metric(text: str) -> Labels:
    """`name{label="value"}`, or `{}` for no labels at all. Raises PromQLError."""
    cursor = Cursor(text)
    found: dict[str, str] = {}
    if cursor.token.kind is Kind.WORD:
        found[METRIC_NAME] = cursor.advance().text
    elif not cursor.at("{"):
        cursor.unexpected('a metric such as up{job="a"}')
    if cursor.at("{"):
        opened = cursor.advance()
        while not cursor.at("}"):
            _label(cursor, found)
            if not cursor.take(","):
                break
        cursor.close("}", opened, '"," or "}"')
    if not cursor.ended:
        cursor.unexpected("the end of the metric")
    return Labels(found)


def _label(cursor: Cursor, found: dict[str, str]) -> None:
    """One `name="value"`, or a metric name standing in quotes by itself."""
    token = cursor.token
    if token.kind not in (Kind.WORD, Kind.STRING):
        cursor.unexpected('a label name or "}"')
    cursor.advance()
    name = token.text if token.kind is Kind.WORD else string_value(cursor, token)
    if token.kind is Kind.STRING and (cursor.at(",") or cursor.at("}")):
        name, value = METRIC_NAME, name
    else:
        cursor.expect("=", '"=": a series has values, not patterns')
        if cursor.token.kind is not Kind.STRING:
            cursor.unexpected("a quoted string")
        value = string_value(cursor, cursor.advance())
    if name in found:
        cursor.fail(f"label {name} is given twice", token)
    found[name] = value


def parse_values(text: str) -> list[Value]:
    """The values of one series, one an interval. Raises PromQLError.

    `_` is no sample, `stale` the end of the series; `1x3` is 1 and three more,
    `1+2x3` and `1-2x3` go up and down three times, `_x3` is three times nothing.
    """
    return _values(text, 0)


def parse_description(text: str) -> tuple[Labels, list[Value]]:
    """A metric, a blank and its values. Raises PromQLError."""
    found = _METRIC.match(text)
    end = found.end() if found else 0
    metric = parse_metric(text[:end])
    if text[end:] and not text[end].isspace() and not text[end - 1].isspace():
        _fail(f"unexpected {text[end]!r}, expected a blank and values", text, end)
    return metric, _values(text, end)


def _values(text: str, start: int) -> list[Value]:
    values: list[Value] = []
    for word in re.compile(r"\S+").finditer(text, start):
        item = _ITEM.fullmatch(word[0])
        if item is None or (item["stale"] and item["times"]):
            _fail(f"{word[0]} is no value of a series", text, word.start(), len(word[0]))
        if item["step"] and not item["times"]:
            hint = f"{word[0]}x5 goes on five times"
            _fail(f"{word[0]} does not say how often", text, word.start(), len(word[0]), hint)
        times = int(item["times"] or 0) if len(item["times"] or "") < 8 else MAX_VALUES
        if len(values) + times >= MAX_VALUES:
            _fail(f"more than {MAX_VALUES} values", text, word.start(), len(word[0]))
        values += _repeated(item, times)
    return values


def _repeated(item: re.Match[str], times: int) -> list[Value]:
    if item["omitted"]:
        return [None] * (times if item["times"] else 1)
    if item["stale"]:
        return [STALE_NAN]
    value, step = _signed(item["value"]), _signed(item["step"] or "0")
    values: list[Value] = [value]
    for _ in range(times):
        # Added up one by one, as Prometheus does: the rounding errors must be the same.
        value += step
        values.append(value)
    return values


def _signed(text: str) -> float:
    number = parse_number(text.lstrip("+-"))
    return -number if text.startswith("-") else number


def _fail(what: str, text: str, at: int, width: int = 1, hint: str = "") -> NoReturn:
    hint = hint or "values are written like 1 -2.5 NaN _ _x3 stale 0+10x60"
    raise PromQLError.at(what, text, Position(at, at + width), hint=hint)
