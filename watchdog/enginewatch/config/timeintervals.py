"""Recurring times, `time_intervals` in Alertmanager's vocabulary.

https://prometheus.io/docs/alerting/latest/configuration/#time_interval
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, NamedTuple, Self
from zoneinfo import ZoneInfo

from pydantic import BeforeValidator, Field, model_validator

from enginewatch.config.section import Section, fault

_DAYS: Final = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_CLOCK: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)|24:00", re.ASCII)
_UTC: Final = ZoneInfo("UTC")


class Span(NamedTuple):
    """Whole numbers from `first` to `last`, both of them in it; below 0 counted from the end."""

    first: int
    last: int


class _Kind(NamedTuple):
    """What the ends of a span are called, and how far they may reach."""

    name: str
    low: int
    high: int
    words: Mapping[str, int]
    from_end: bool = False


_WEEKDAY: Final = _Kind("weekday", 0, 6, {word: n for n, word in enumerate(_DAYS)})
_MONTH: Final = _Kind("month", 1, 12, {word: n for n, word in enumerate(_MONTHS, 1)})
_DAY_OF_MONTH: Final = _Kind("day of the month", 1, 31, {}, from_end=True)
_YEAR: Final = _Kind("year", 1970, 9999, {})


def _span_of(kind: _Kind) -> Callable[[Any], Span]:
    def span(text: Any) -> Span:
        if not isinstance(text, str):
            raise fault(f"a {kind.name} is a text, or two with a colon between them")
        ends = [_end(word.strip().lower(), kind) for word in text.split(":")]
        if len(ends) > 2:
            raise fault(f"{text!r} has more than two ends")
        first, last = ends[0], ends[-1]
        if first < 0 < last:
            raise fault(f"{text!r} begins counted from the end and ends counted from the start")
        if first > last and not last < 0 < first:
            raise fault(f"{text!r} ends before it begins", "write it as two")
        return Span(first, last)

    return span


def _end(word: str, kind: _Kind) -> int:
    # Alertmanager takes weekdays by name only: it is not agreed which day is the first.
    number = kind.words.get(word)
    if number is None and re.fullmatch(r"-?\d+", word, re.ASCII) and kind is not _WEEKDAY:
        number = int(word)
    if number is None:
        hint = f"like {next(iter(kind.words))}" if kind.words else ""
        raise fault(f"{word!r} is no {kind.name}", hint)
    if not (kind.low <= (abs(number) if kind.from_end else number) <= kind.high):
        raise fault(f"{kind.name} {number} is out of range", f"{kind.low} to {kind.high}")
    return number


def _minutes(text: Any) -> int:
    found = _CLOCK.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise fault(f"{text!r} is no time of the day", "like 09:00; 24:00 is the end of the day")
    hours, minutes = found.groups()
    return 24 * 60 if hours is None else int(hours) * 60 + int(minutes)


def _zone(name: Any) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, TypeError, OSError):  # a folder of the database is an OSError
        raise fault(f"{name!r} is no time zone", "like Europe/Berlin, or UTC") from None


class TimeRange(Section):
    """Minutes of the day from `start_time` up to, and without, `end_time`."""

    start_time: Annotated[int, BeforeValidator(_minutes)]
    end_time: Annotated[int, BeforeValidator(_minutes)]

    @model_validator(mode="after")
    def _forwards(self) -> Self:
        if self.start_time >= self.end_time:
            raise fault("ends before it begins", "a night is two ranges: one up to 24:00")
        return self


class TimePeriod(Section):
    """All that is given must hold at once; what is not given holds always."""

    times: tuple[TimeRange, ...] = ()
    weekdays: tuple[Annotated[Span, BeforeValidator(_span_of(_WEEKDAY))], ...] = ()
    """Sunday is 0."""
    days_of_month: tuple[Annotated[Span, BeforeValidator(_span_of(_DAY_OF_MONTH))], ...] = ()
    months: tuple[Annotated[Span, BeforeValidator(_span_of(_MONTH))], ...] = ()
    years: tuple[Annotated[Span, BeforeValidator(_span_of(_YEAR))], ...] = ()
    location: Annotated[ZoneInfo, BeforeValidator(_zone)] = _UTC


class TimeInterval(Section):
    """A name for any number of periods: it holds while one of them does."""

    name: str = Field(min_length=1)
    time_intervals: tuple[TimePeriod, ...] = ()
