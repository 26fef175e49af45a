"""Numbers, durations and strings: what their tokens mean. All raise ValueError."""

from __future__ import annotations

import math
import re
from typing import Final

from enginewatch.model import Millis
from enginewatch.units import parse_duration

MAX_DURATION: Final[Millis] = (2**63 - 1) // 1_000_000
"""About 292 years: Prometheus counts durations in nanoseconds of 64 bits."""

_OCTAL: Final = re.compile(r"0[0-7_]+")
_ESCAPE: Final = re.compile(
    r"\\(?:([abfnrtv\\'\"])|([0-7]{3})|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.?))",
    re.DOTALL,
)
_SIMPLE: Final = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))


def parse_number(text: str) -> float:
    """A number as Go reads it: hexadecimal after `0x`, octal after `0`, `_` between digits."""
    lowered = text.lower()
    if lowered.startswith("0x"):
        return _float(int(lowered.replace("_", ""), 16))
    if lowered in ("inf", "nan"):
        return math.inf if lowered == "inf" else math.nan
    if _OCTAL.fullmatch(lowered):
        return _float(int(lowered.replace("_", ""), 8))
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {text} is out of range")
    return value


def _float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        raise ValueError("the number is out of range") from None


def parse_span(text: str) -> Millis:
    """A duration token as milliseconds, bounded as Prometheus bounds it."""
    span = parse_duration(text)
    if span > MAX_DURATION:
        raise ValueError(f"the duration {text} is out of range, the longest is about 292 years")
    return span


def span_of_seconds(seconds: float) -> Millis:
    """A bare number used as a duration, in milliseconds."""
    if not seconds * 1000 <= MAX_DURATION:
        raise ValueError("the duration is out of range, the longest is about 292 years")
    return millis_of(seconds)


def millis_of(seconds: float) -> Millis:
    """Non-negative seconds to the nearest millisecond; halves go up, as Go's rounding has it."""
    return math.floor(seconds * 1000 + 0.5)


def unquote(token: str) -> str:
    """The value of a string token: escapes as in Go, none between backticks."""
    quote, body = token[0], token[1:-1]
    if quote == "`" or "\\" not in body:
        value = body
    else:
        try:
            value = _unescape(body, quote)
        except UnicodeDecodeError:
            raise ValueError("the string's escapes do not make valid UTF-8") from None
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("the string is not valid Unicode text") from None
    return value


def _unescape(body: str, quote: str) -> str:
    """Octal and \\x escapes are bytes, the others characters; together they must be UTF-8."""
    parts: list[bytes] = []
    done = 0
    for found in _ESCAPE.finditer(body):
        parts.append(body[done : found.start()].encode("utf-8", "surrogatepass"))
        parts.append(_escaped(found, quote))
        done = found.end()
    parts.append(body[done:].encode("utf-8", "surrogatepass"))
    return b"".join(parts).decode()


def _escaped(found: re.Match[str], quote: str) -> bytes:
    simple, octal, byte, short, long, other = found.groups()
    if simple and (simple not in "'\"" or simple == quote):
        return _SIMPLE.get(simple, simple).encode()
    if octal or byte:
        value = int(octal, 8) if octal else int(byte, 16)
        if value > 0xFF:
            raise ValueError(f"the escape {found.group()} is more than a byte")
        return bytes([value])
    if short or long:
        code = int(short or long, 16)
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise ValueError(f"the escape {found.group()} is not a Unicode character")
        return chr(code).encode()
    raise ValueError(
        f"unknown escape \\{simple or other} in a string, write \\\\ for a backslash"
        " or quote the string with backticks"
    )
