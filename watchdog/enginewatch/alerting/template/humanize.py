"""Prometheus' humanize functions: a number as a person reads it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from enginewatch.alerting.template import strconv
from enginewatch.alerting.template.values import GoError, Value, go_int64, type_of
from enginewatch.units import format_float

_LARGE: Final = "kMGTPEZY"
_SMALL: Final = "munpfazy"
_BINARY: Final = ("ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi", "Yi")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def to_float(value: Value) -> float:
    """A number, or a string that holds one, as a float."""
    match value:
        case float():
            return value
        case str():
            return strconv.parse_float(value)
        case int() if not isinstance(value, bool):
            return float(value)
    raise GoError(f"can't convert {type_of(value)} to float")


def humanize(value: Value) -> str:
    """SI prefixes, four digits: 1234567 is `1.235M`, 0.00042 is `420u`."""
    number = to_float(value)
    if number == 0 or not math.isfinite(number):
        return _four(number)
    return "".join(_scaled(number, _SMALL if abs(number) < 1 else _LARGE, 1000))


def humanize1024(value: Value) -> str:
    """Binary prefixes, four digits: 1048576 is `1Mi`."""
    number = to_float(value)
    if abs(number) <= 1 or not math.isfinite(number):
        return _four(number)
    return "".join(_scaled(number, _BINARY, 1024))


def humanize_duration(value: Value) -> str:
    """Seconds as `1d 2h 3m 4s`, `12.35s` or `4.2ms`."""
    number = to_float(value)
    if not math.isfinite(number):
        return _four(number)
    if number == 0:
        return _four(number) + "s"
    if abs(number) < 1:
        return "".join(_scaled(number, _SMALL, 1000)) + "s"
    sign = "-" if number < 0 else ""
    whole = go_int64(abs(number))
    # Only a duration beyond int64 gets here negative; Go's division rounds towards zero.
    minus = "-" if whole < 0 else ""
    minutes, seconds = divmod(abs(whole), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "m"), (seconds, "s")]
    while len(parts) > 1 and not parts[0][0]:
        del parts[0]
    if len(parts) == 1:
        return f"{sign}{_four(abs(number))}s"
    return sign + " ".join(f"{minus if count else ''}{count}{unit}" for count, unit in parts)


def humanize_percentage(value: Value) -> str:
    """A ratio as a percentage: 0.1234 is `12.34%`."""
    return _four(to_float(value) * 100) + "%"


def humanize_timestamp(value: Value) -> str:
    """Unix seconds as `2026-01-31 12:00:00.5 +0000 UTC`, to the millisecond."""
    number = to_float(value)
    if not math.isfinite(number):
        return _four(number)
    nanoseconds = number * 1e9
    if not -(2.0**63) <= nanoseconds <= 2.0**63:
        shown = format_float(number, "g")
        raise GoError(
            f"{shown} cannot be represented as a nanoseconds timestamp since it overflows int64"
        )
    whole = go_int64(nanoseconds)
    milliseconds = abs(whole) // 1_000_000 * (1 if whole >= 0 else -1)
    at = _EPOCH + timedelta(milliseconds=milliseconds)
    fraction = f".{at.microsecond // 1000:03d}".rstrip("0").rstrip(".")
    return f"{at:%Y-%m-%d %H:%M:%S}{fraction} +0000 UTC"


def _four(number: float) -> str:
    return format_float(number, "g", 4)


def _scaled(number: float, prefixes: Sequence[str], base: int) -> tuple[str, str]:
    """The number over the prefix that suits it, and the prefix; the last serves for all beyond."""
    taken = ""
    for prefix in prefixes:
        if abs(number) >= 1 if prefixes is _SMALL else abs(number) < base:
            break
        taken = prefix
        number = number * base if prefixes is _SMALL else number / base
    return _four(number), taken
