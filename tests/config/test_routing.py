"""Routes, inhibitions and time intervals: read in Alertmanager's vocabulary, mistakes told."""

from __future__ import annotations

from pathlib import Path

import pytest

from enginewatch.config import ConfigError, Span, parse_config

E = Path("/etc/e.yml")

FULL = """
receivers: [{name: all}, {name: night}]
route:
  receiver: all
  group_by: [deployment]
  group_wait: 0s
  routes:
    - matchers: ['severity=~"page|ticket"', '{deployment!="dev",team="x"}']
      receiver: night
      continue: true
      repeat_interval: 1h
      mute_time_intervals: [office]
      routes: [{matchers: verdict="gpu_fault", active_time_intervals: [old]}]
inhibit_rules:
  - shipped
  - {source_matchers: [severity="page"], target_matchers: [severity="info"], equal: [deployment]}
time_intervals:
  - name: office
    time_intervals:
      - times: [{start_time: "09:00", end_time: "24:00"}]
        weekdays: ["monday:friday", Sunday]
        days_of_month: ["1:5", "-3:-1", "28:-1"]
        months: ["january:march", "12"]
        years: ["2026:2030"]
        location: Europe/Berlin
mute_time_intervals: [{name: old}]
heartbeat: {url: "https://hc.example/secret", interval: 30s}
"""


def test_all_of_it_is_read() -> None:
    config = parse_config(FULL, E)
    assert config.route is not None
    (child,) = config.route.routes
    assert [str(m) for m in child.matchers] == [
        'severity=~"page|ticket"',
        'deployment!="dev"',
        'team="x"',
    ]
    assert child.continue_
    assert child.group_by is None
    assert (config.route.group_wait, child.repeat_interval) == (0, 3_600_000)
    assert child.routes[0].active_time_intervals == ("old",)
    assert config.inhibit_rules[0] is None
    assert config.inhibit_rules[1] is not None
    assert config.inhibit_rules[1].equal == ("deployment",)
    (period,) = config.time_intervals[0].time_intervals
    assert (period.times[0].start_time, period.times[0].end_time) == (540, 1440)
    assert period.weekdays == (Span(1, 5), Span(0, 0))
    assert period.days_of_month == (Span(1, 5), Span(-3, -1), Span(28, -1))
    assert period.months == (Span(1, 3), Span(12, 12))
    assert period.location.key == "Europe/Berlin"
    assert config.heartbeat is not None
    assert "secret" not in repr(config.heartbeat)


def test_without_any_of_it_the_shipped_inhibitions_hold() -> None:
    config = parse_config("", E)
    assert (config.route, config.inhibit_rules) == (None, (None,))
    assert parse_config("inhibit_rules: []", E).inhibit_rules == ()


PAIR = "receivers: [{name: a}]\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("route: {receiver: b}", "route.receiver: no receiver is called 'b' (known: a)"),
        ("route: {}", "route.receiver: is missing"),
        ("route: {receiver: a, matchers: [x=y]}", "route.matchers: can't be given at the root"),
        ("route: {receiver: a, continue: true}", "route.continue: can't be given at the root"),
        (
            "route: {receiver: a, routes: [{match: {x: y}}]}",
            "route.routes[0].match: unknown key (use matchers:",
        ),
        (
            "route: {receiver: a, routes: [{recever: a}]}",
            "route.routes[0].recever: unknown key (did you mean 'receiver'?)",
        ),
        (
            "route: {receiver: a, routes: [{matchers: ['a=b', 'x']}]}",
            "/etc/e.yml:2: route.routes[0].matchers[1]: 'x' is no matcher",
        ),
        (
            "route: {receiver: a, routes: [{mute_time_intervals: [x]}]}",
            "route.routes[0].mute_time_intervals[0]: no time interval is called 'x' (known: none)",
        ),
        (
            "route: {receiver: a, group_by: [x, x]}",
            "route.group_by[1]: 'x' is given twice",
        ),
        ("route: {receiver: a, group_by: ['...', x]}", "'...' stands for all labels"),
        ("route: {receiver: a, group_interval: 0s}", "group_interval: must be longer than 0s"),
        ("inhibit_rules: [all]", "inhibit_rules[0]: not an inhibition (a mapping, or shipped)"),
        (
            "inhibit_rules: [{source_matchers: [a=b]}]",
            "inhibit_rules[0]: target_matchers is missing",
        ),
        (
            "inhibit_rules: [{source_match: {a: b}}]",
            "inhibit_rules[0].source_match: unknown key (use source_matchers)",
        ),
        (
            "time_intervals: [{name: x}]\nmute_time_intervals: [{name: y}, {name: x}]",
            "/etc/e.yml:3: mute_time_intervals[1].name: 'x' is given twice",
        ),
        ("heartbeat: {}", "heartbeat: no URL"),
        ("heartbeat: {url: 'http://a', method: POST}", "method: unknown key (it is a GET"),
    ],
)
def test_mistakes_are_told_with_their_place(text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(PAIR + text, E)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("period", "expected"),
    [
        ("times: [{start_time: '9:00', end_time: '17:00'}]", "'9:00' is no time of the day"),
        ("times: [{start_time: '22:00', end_time: '06:00'}]", "a night is two ranges"),
        ("times: [{start_time: '24:01', end_time: '24:00'}]", "no time of the day"),
        ("weekdays: [5]", "'5' is no weekday (like sunday)"),
        ("weekdays: ['friday:monday']", "'friday:monday' ends before it begins"),
        ("weekdays: ['a:b:c']", "'a' is no weekday"),
        ("days_of_month: ['0']", "day of the month 0 is out of range (1 to 31)"),
        ("days_of_month: ['1:32']", "day of the month 32 is out of range"),
        ("days_of_month: ['-3:5']", "begins counted from the end and ends counted from the start"),
        ("days_of_month: ['5:1']", "ends before it begins"),
        ("months: ['13']", "month 13 is out of range"),
        ("months: [janury]", "'janury' is no month (like january)"),
        ("months: [[1]]", "a month is a text"),
        ("years: ['x']", "'x' is no year"),
        ("location: Europe/Bonn", "'Europe/Bonn' is no time zone"),
        ("location: ../etc/passwd", "is no time zone"),
        ("location: Europe", "is no time zone"),
    ],
)
def test_times_that_are_none(period: str, expected: str) -> None:
    text = f"time_intervals: [{{name: x, time_intervals: [{{{period}}}]}}]"
    with pytest.raises(ConfigError) as caught:
        parse_config(text, E)
    assert expected in str(caught.value)
