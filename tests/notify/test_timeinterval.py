"""When a time interval holds: edges, months' ends, and zones with summer time."""

from __future__ import annotations

from pathlib import Path

import pytest

from enginewatch.config import parse_config
from enginewatch.notify.timeinterval import holding, holds
from enginewatch.units import parse_time


def interval(period: str) -> object:
    text = f"time_intervals: [{{name: x, time_intervals: [{period}]}}]"
    return parse_config(text, Path("e.yml")).time_intervals[0]


@pytest.mark.parametrize(
    ("period", "at", "expected"),
    [
        ("{}", "2026-03-02T12:00:00Z", True),
        ("", "2026-03-02T12:00:00Z", False),
        ("{times: [{start_time: '09:00', end_time: '17:00'}]}", "2026-03-02T09:00:00Z", True),
        ("{times: [{start_time: '09:00', end_time: '17:00'}]}", "2026-03-02T08:59:59Z", False),
        ("{times: [{start_time: '09:00', end_time: '17:00'}]}", "2026-03-02T17:00:00Z", False),
        ("{times: [{start_time: '22:00', end_time: '24:00'}]}", "2026-03-02T23:59:59Z", True),
        ("{weekdays: ['monday:friday']}", "2026-03-02T00:00:00Z", True),  # a Monday
        ("{weekdays: ['monday:friday']}", "2026-03-01T12:00:00Z", False),
        ("{weekdays: [sunday]}", "2026-03-01T12:00:00Z", True),
        ("{days_of_month: ['-1']}", "2026-02-28T12:00:00Z", True),
        ("{days_of_month: ['-1']}", "2028-02-28T12:00:00Z", False),
        ("{days_of_month: ['-1']}", "2028-02-29T12:00:00Z", True),
        ("{days_of_month: ['30:31']}", "2026-02-28T12:00:00Z", False),
        ("{days_of_month: ['25:31']}", "2026-02-28T12:00:00Z", True),
        ("{days_of_month: ['-31:-28']}", "2026-02-01T12:00:00Z", True),
        ("{days_of_month: ['1:5', '20']}", "2026-02-20T12:00:00Z", True),
        ("{months: ['january:march']}", "2026-03-31T23:59:59Z", True),
        ("{months: ['january:march']}", "2026-04-01T00:00:00Z", False),
        ("{years: ['2025:2026']}", "2026-12-31T23:59:59Z", True),
        ("{months: [march], weekdays: [tuesday]}", "2026-03-02T12:00:00Z", False),
        # 08:30 in Berlin is 07:30 UTC in winter, and 06:30 in summer.
        (
            "{times: [{start_time: '08:00', end_time: '09:00'}], location: Europe/Berlin}",
            "2026-01-15T07:30:00Z",
            True,
        ),
        (
            "{times: [{start_time: '08:00', end_time: '09:00'}], location: Europe/Berlin}",
            "2026-07-15T06:30:00Z",
            True,
        ),
        (
            "{times: [{start_time: '08:00', end_time: '09:00'}], location: Europe/Berlin}",
            "2026-07-15T07:30:00Z",
            False,
        ),
        ("{weekdays: [monday], location: Asia/Tokyo}", "2026-03-01T15:00:00Z", True),
    ],
)
def test_holds(period: str, at: str, expected: bool) -> None:
    assert holds(interval(period), parse_time(at)) is expected  # type: ignore[arg-type]


def test_the_intervals_that_hold_are_named() -> None:
    always, never = interval("{}"), interval("")
    found = holding(["a", "b"], {"a": always, "b": never}, 0)  # type: ignore[dict-item]
    assert found == ("a",)
