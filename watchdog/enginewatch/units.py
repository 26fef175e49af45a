"""Durations, sizes, numbers, times and addresses as Prometheus writes them, and counted things
as people do, in one place."""

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


def format_float(value: float, verb: str = "f", precision: int | None = None) -> str:
    """Go's `strconv.FormatFloat(value, verb, precision, 64)` for e, f, g and x, and E, G and X.

    f, as Prometheus writes samples, never has an exponent. `precision` None asks for
    the fewest digits that read back as the same number; x has no other.
    """
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'+' if value > 0 else '-'}Inf"
    if verb == "f" and precision is None and abs(value) < 1e15 and value == int(value):
        return f"{value:.0f}"
    if verb in "xX":
        return _hexadecimal(value, verb)
    if precision is not None:
        return f"%.{precision}{verb}" % value
    sign, digits, point = _shortest(value)
    exponent = point - 1
    if verb in "gG" and not -4 <= exponent < 6:
        verb = "e" if verb == "g" else "E"
    if verb in "eE":
        fraction = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{fraction}{verb}{exponent:+03d}"
    digits = digits.rjust(len(digits) + 1 - point, "0").ljust(point, "0")
    point = max(point, 1)
    return f"{sign}{digits[:point]}.{digits[point:]}".rstrip(".")


def _shortest(value: float) -> tuple[str, str, int]:
    """Sign, significant digits, and where the decimal point stands among them."""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) - len(whole + fraction) + len(digits) + int(exponent or 0)
    digits = digits.rstrip("0")
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    return (sign, digits, point) if digits else (sign, "0", 1)


def _hexadecimal(value: float, verb: str) -> str:
    """The fewest hexadecimal digits, the first of them 1 (0 for zero): `0x1.8p+01`."""
    fraction, exponent = math.frexp(value)
    # frexp gives 0.5 <= |fraction| < 1, also for subnormals; Go wants 1 <= |mantissa| < 2.
    mantissa, _, _ = (fraction * 2).hex().partition("p")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    text = f"{mantissa}p{exponent - 1 if value else 0:+03d}"
    return text.upper() if verb == "X" else text


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


def parse_address(text: str) -> tuple[str, int]:
    """`host:port` in its parts, an IPv6 host in brackets and without them. Raises ValueError."""
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise ValueError(f"{text!r} is not host:port")
    return host.strip("[]"), int(port)


def plural(count: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
