"""The value as people read it, beside its threshold."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from tests.notify.alerts import saying

from enginewatch.notify.threshold import Threshold, parse_threshold, value_of


@pytest.mark.parametrize(
    ("threshold", "value", "told"),
    [
        (">= 15 s", 20.0, "20 s (threshold >= 15 s)"),
        ("> 50 %", 0.625, "62.5 % (threshold > 50 %)"),
        ("> 100 ms", 0.25, "250 ms (threshold > 100 ms)"),
        ("< 3", 2.0, "2 (threshold < 3)"),
        (">= 0.1 preemptions/s", 0.4, "0.4 preemptions/s (threshold >= 0.1 preemptions/s)"),
        ("a third of the day before", 2.0, "2 (threshold a third of the day before)"),
        ("", 2.0, "2"),
        ("> 0", math.nan, ""),
    ],
)
def test_the_value_has_the_unit_of_the_threshold(threshold: str, value: float, told: str) -> None:
    assert value_of(replace(saying(threshold=threshold), value=value)) == told


def test_what_the_rule_says_of_the_value_is_believed() -> None:
    said = replace(saying(threshold="> 0", value="4 requests"), value=math.nan)
    assert value_of(said) == "4 requests (threshold > 0)"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("> 50 %", Threshold(">", 0.5, "%")),
        ("<= -3", Threshold("<=", -3.0, "")),
        (">15 s", None),
        ("> many", None),
        ("50 %", None),
    ],
)
def test_a_threshold_is_a_comparison_a_number_and_a_unit(
    text: str, found: Threshold | None
) -> None:
    assert parse_threshold(text) == found
