"""Prometheus' way of writing durations, sizes, numbers and times, read and written in one place."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

from enginewatch.model import Millis

_MILLIS: Final = {
    "y": 365 * 86_400_000,
    "w": 7 * 86_400_000,
    "d": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1_000,
    "ms": 1,
}
_DURATION: Final = re.compile(
    r"(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?", re.ASCII
)
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGTPE]?)(i?)B?", re.ASCII | re.IGNORECASE)


def parse_duration(text: str) -> Millis:
    """`1h30m` as milliseconds; units go from large to small, each at most once.

    Raises ValueError. The grammar is that of `model.ParseDuration` in prometheus/common.
    """
    if text == "0":
        return 0
    found = _DURATION.fullmatch(text)
    if not text or found is None:
        raise ValueError(f"{text!r} is not a duration: write it like 30s, 5m or 1h30m")
    return sum(int(n) * unit for n, unit in zip(found.groups(), _MILLIS.values(), strict=True) if n)


def format_duration(span: Millis) -> str:
    """The shortest exact form: 90000 is `1m30s`, 0 is `0s`."""
    if span == 0:
        return "0s"
    parts = ["-"] if span < 0 else []
    rest = abs(span)
    for unit, size in _MILLIS.items():
        # Years and weeks only when they divide evenly: "1w1d" reads worse than "8d".
        if unit in ("y", "w") and rest % size:
            continue
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def parse_size(text: str) -> int:
    """`10MB` and `10MiB` as bytes, both in powers of 1024 as Prometheus' `body_size_limit`.

    Raises ValueError.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a size: write it like 512KB, 10MB or 1GB")
    number, prefix, _ = found.groups()
    return int(Decimal(number) * 1024 ** " KMGTPE".index(prefix.upper() or " "))


def format_float(value: float) -> str:
    """As Go's `strconv.FormatFloat(v, 'f', -1, 64)`: shortest digits, never an exponent."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == int(value) and abs(value) < 1e15:
        return f"{value:.0f}"
    return format(Decimal(repr(value)), "f")


def parse_time(text: str) -> Millis:
    """Unix seconds or an RFC 3339 time, as milliseconds. Raises ValueError."""
    try:
        seconds = float(text)
    except ValueError:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            raise ValueError(
                f"{text!r} is not a time: give Unix seconds or RFC 3339, 2026-01-31T12:00:00Z"
            ) from None
        return round(moment.timestamp() * 1000)
    if not math.isfinite(seconds) or abs(seconds) > 1e11:
        raise ValueError(f"{text!r} is out of the range of times")
    return round(seconds * 1000)


def format_time(at: Millis) -> str:
    """RFC 3339 in UTC with milliseconds: `2026-01-31T12:00:00.000Z`."""
    return (
        datetime.fromtimestamp(at / 1000, UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )
