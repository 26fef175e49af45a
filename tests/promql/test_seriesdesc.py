"""The notation of series in unit tests and scripts."""

from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginewatch.model import STALE_NAN, Labels, is_stale
from enginewatch.promql.errors import PromQLError
from enginewatch.promql.seriesdesc import (
    MAX_VALUES,
    parse_description,
    parse_metric,
    parse_values,
)


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("up", {"__name__": "up"}),
        (" engine:x_seconds:mean30s ", {"__name__": "engine:x_seconds:mean30s"}),
        ('up{job="a", instance="b:1",}', {"__name__": "up", "job": "a", "instance": "b:1"}),
        ("{}", {}),
        ('{__name__="up"}', {"__name__": "up"}),
        ('{"up", job="a"}', {"__name__": "up", "job": "a"}),
        (
            r"""x{a='it"s', b=`c\d`, c="}\n"}""",
            {"__name__": "x", "a": 'it"s', "b": r"c\d", "c": "}\n"},
        ),
        ('x{a=""}', {"__name__": "x"}),
    ],
)
def test_metrics(text: str, labels: dict[str, str]) -> None:
    assert parse_metric(text) == Labels(labels)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", []),
        ("1", [1]),
        ("1 -2.5\t+3\n4e2", [1, -2.5, 3, 400]),
        ("0+10x3", [0, 10, 20, 30]),
        ("10-5x3", [10, 5, 0, -5]),
        ("-1+1x2 7", [-1, 0, 1, 7]),
        ("1x3", [1, 1, 1, 1]),
        ("1x0", [1]),
        ("5+1x0", [5]),
        ("_", [None]),
        ("_x2 1 _x0", [None, None, 1]),
        ("Inf -inf +Inf", [math.inf, -math.inf, math.inf]),
        ("0x2", [0, 0, 0]),
        ("52+0x1", [52, 52]),
        ("0+0.1x3", [0, 0.1, 0.2, 0.1 + 0.1 + 0.1]),
        ("1e3+1e3x1", [1000, 2000]),
    ],
)
def test_values(text: str, values: list[float | None]) -> None:
    assert parse_values(text) == values


def test_nan_and_stale_are_told_apart() -> None:
    nan, stale, after = parse_values("NaN stale 1")
    assert nan is not None
    assert math.isnan(nan)
    assert not is_stale(nan)
    assert stale is not None
    assert is_stale(stale)
    assert after == 1


def test_descriptions() -> None:
    assert parse_description('up{a="} 1"} 0 1x1') == (Labels(__name__="up", a="} 1"), [0, 1, 1])
    assert parse_description("up 3") == (Labels(__name__="up"), [3])
    assert parse_description('{a="b"}') == (Labels(a="b"), [])


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ("1 2,3", "1:3", "2,3 is no value"),
        ("1 two", "1:3", "two is no value"),
        ("1\n 1+1", "2:2", "1+1 does not say how often"),
        ("stalex2", "1:1", "is no value"),
        ("1x", "1:1", "is no value"),
        ("{{schema:1}}", "1:1", "is no value"),
        ("1x999999999999999999999", "1:1", f"more than {MAX_VALUES} values"),
        ("1x600000 _x600000", "1:10", f"more than {MAX_VALUES} values"),
    ],
)
def test_bad_values_say_where(text: str, place: str, what: str) -> None:
    with pytest.raises(PromQLError) as caught:
        parse_values(text)
    assert f"{caught.value.line}:{caught.value.column}" == place
    assert what in caught.value.what


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "expected a metric"),
        ("up{", "expected a label name"),
        ('up{a="b"', "to close"),
        ('up{a=~"b"}', "not patterns"),
        ('up{a="b", a="c"}', "label a is given twice"),
        ('up{__name__="down"}', "label __name__ is given twice"),
        ("up{a=b}", "a quoted string"),
        ("up + 1", "the end of the metric"),
        ('up{a="\\q"}', "unknown escape"),
    ],
)
def test_bad_metrics_say_what_is_wrong(text: str, what: str) -> None:
    with pytest.raises(PromQLError, match=what):
        parse_metric(text)


def test_a_metric_and_its_values_need_a_blank_between_them() -> None:
    with pytest.raises(PromQLError, match="expected a blank and values"):
        parse_description("up{}1")


@settings(deadline=None, max_examples=200)
@given(st.text(alphabet="up{}=\"'`\\,_ x+-.01eNnaInfstle\n") | st.text())
def test_never_another_error(text: str) -> None:
    for parse in (parse_metric, parse_values, parse_description):
        with contextlib.suppress(PromQLError):
            parse(text)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.none() | st.floats(allow_nan=False), max_size=20))
def test_values_read_back(values: list[float | None]) -> None:
    assert parse_values(" ".join("_" if v is None else repr(v) for v in values)) == values


def test_a_stale_marker_is_the_one_of_the_store() -> None:
    assert parse_values("stale")[0] is STALE_NAN
