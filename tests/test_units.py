"""Durations, sizes, numbers and times as Prometheus writes them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enginewatch.units import (
    format_duration,
    format_float,
    format_time,
    parse_address,
    parse_duration,
    parse_size,
    parse_time,
)


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("0", 0),
        ("0s", 0),
        ("5s", 5_000),
        ("1m30s", 90_000),
        ("1h", 3_600_000),
        ("250ms", 250),
        ("1d", 86_400_000),
        ("2w", 14 * 86_400_000),
        ("1y", 365 * 86_400_000),
    ],
)
def test_durations_are_read(text: str, millis: int) -> None:
    assert parse_duration(text) == millis


@pytest.mark.parametrize("text", ["", "5", "s", "1s1m", "1.5h", "-5s", "5 s", "١s", "1m1m"])
def test_other_durations_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="write it like 30s"):
        parse_duration(text)


@given(st.integers(min_value=0, max_value=10**14))
def test_a_written_duration_reads_back_the_same(millis: int) -> None:
    assert parse_duration(format_duration(millis)) == millis


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("512", 512),
        ("10KB", 10240),
        ("1MiB", 1 << 20),
        ("1.5 mb", 3 << 19),
        ("2GB", 2 << 30),
    ],
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MB", "-1MB", "1XB", "1MBB"])
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (0.1, "0.1"),
        (1e6, "1000000"),
        (1e21, "1000000000000000000000"),
        (1.5e-7, "0.00000015"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_numbers_are_written_as_go_writes_them(value: float, text: str) -> None:
    assert format_float(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_written_number_reads_back_the_same_and_has_no_exponent(value: float) -> None:
    assert float(format_float(value)) == value
    assert "e" not in format_float(value)


def test_times_are_unix_seconds_or_rfc3339_with_a_zone() -> None:
    assert parse_time("1435781451.781") == 1435781451781
    assert parse_time("2015-07-01T20:10:51.781Z") == 1435781451781
    assert format_time(1435781451781) == "2015-07-01T20:10:51.781Z"
    for bad in ("", "yesterday", "2015-07-01T20:10:51", "inf", "1e300"):
        with pytest.raises(ValueError, match="time"):
            parse_time(bad)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("127.0.0.1:9469", ("127.0.0.1", 9469)),
        ("[::1]:80", ("::1", 80)),
        ("gpu-1:0", ("gpu-1", 0)),
    ],
)
def test_addresses_are_read(text: str, parts: tuple[str, int]) -> None:
    assert parse_address(text) == parts


@pytest.mark.parametrize("text", ["", "80", ":80", "host:", "host:65536", "host:-1", "host:٨٠"])
def test_other_addresses_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not host:port"):
        parse_address(text)
