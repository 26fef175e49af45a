"""Whether a moment lies in a recurring time interval, by the clocks of the interval's own zone."""

from __future__ import annotations

import calendar
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from enginewatch.config import Span, TimeInterval, TimePeriod
from enginewatch.model import Millis


def holds(interval: TimeInterval, at: Millis) -> bool:
    """Whether `at` lies in any of the interval's periods."""
    return any(_in_period(period, at) for period in interval.time_intervals)


def holding(
    names: Iterable[str], intervals: Mapping[str, TimeInterval], at: Millis
) -> tuple[str, ...]:
    """Those of `names` whose interval holds at `at`."""
    return tuple(name for name in names if holds(intervals[name], at))


def _in_period(period: TimePeriod, at: Millis) -> bool:
    local = datetime.fromtimestamp(at / 1000, UTC).astimezone(period.location)
    minute = local.hour * 60 + local.minute
    length = calendar.monthrange(local.year, local.month)[1]
    return (
        _any(span.start_time <= minute < span.end_time for span in period.times)
        and _any(_within(local.isoweekday() % 7, span) for span in period.weekdays)
        and _any(_in_month(local.day, span, length) for span in period.days_of_month)
        and _any(_within(local.month, span) for span in period.months)
        and _any(_within(local.year, span) for span in period.years)
    )


def _any(found: Iterable[bool]) -> bool:
    """Whether one of them is true, or there is none: what is not given does not restrict."""
    told = list(found)
    return any(told) or not told


def _within(number: int, span: Span) -> bool:
    return span.first <= number <= span.last


def _in_month(day: int, span: Span, length: int) -> bool:
    """`-1` is the last day; what lies beyond the end of a short month is cut off."""
    first, last = (end if end > 0 else length + 1 + end for end in span)
    return max(1, first) <= day <= min(length, last)
