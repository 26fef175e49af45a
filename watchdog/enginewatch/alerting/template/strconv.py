"""Floats and quoted strings as Go's strconv prints and reads them."""

from __future__ import annotations

import math
import re
import unicodedata
from typing import Final

from enginewatch.alerting.template.values import GoError

_DECIMAL: Final = re.compile(
    r"[+-]?(?:\d+(?:_\d+)*\.?|\d*(?:_\d+)*\.\d+(?:_\d+)*)(?:e[+-]?\d+(?:_\d+)*)?",
    re.ASCII | re.IGNORECASE,
)
_HEX: Final = re.compile(
    r"[+-]?0x(?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)p[+-]?\d+", re.ASCII | re.IGNORECASE
)
_SPECIAL: Final = re.compile(r"[+-]?inf(?:inity)?|nan", re.ASCII | re.IGNORECASE)

_ESCAPES: Final = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    "\\": r"\\",
}
_UNESCAPE: Final = re.compile(
    r"\\(?:(?P<char>[abfnrtv\\'\"])|(?P<octal>[0-7]{3})|x(?P<byte>[0-9a-fA-F]{2})"
    r"|u(?P<short>[0-9a-fA-F]{4})|U(?P<long>[0-9a-fA-F]{8}))"
)
_CHARS: Final = {v[1]: k for k, v in _ESCAPES.items()} | {"'": "'", '"': '"'}


def parse_float(text: str) -> float:
    """As `strconv.ParseFloat`: decimal, hexadecimal with an exponent, NaN, Inf; no blanks.

    Raises GoError with Go's words.
    """
    value = math.inf
    if _SPECIAL.fullmatch(text):
        return float(text)
    if _HEX.fullmatch(text):
        try:
            return float.fromhex(text)
        except OverflowError:
            pass
    elif _DECIMAL.fullmatch(text):
        value = float(text)
    else:
        raise GoError(f"strconv.ParseFloat: parsing {quote(text)}: invalid syntax")
    if math.isinf(value):
        raise GoError(f"strconv.ParseFloat: parsing {quote(text)}: value out of range")
    return value


def format_float(value: float, verb: str = "g", precision: int | None = None) -> str:
    """`strconv.FormatFloat(value, verb, precision, 64)` for e, f, g and x, and E, G and X.

    `precision` None asks for the fewest digits that read back as the same number;
    x has no other.
    """
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'+' if value > 0 else '-'}Inf"
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


def printable(char: str) -> bool:
    """Go's `strconv.IsPrint`: letters, marks, numbers, punctuation, symbols, and the blank."""
    return char == " " or unicodedata.category(char)[0] in "LMNPS"


def quote(text: str, delimiter: str = '"', *, ascii_only: bool = False) -> str:
    """`text` as a Go string literal, or as a rune literal with `'` for delimiter."""
    parts = []
    for char in text:
        code = ord(char)
        if char == delimiter:
            parts.append("\\" + char)
        elif char in _ESCAPES:
            parts.append(_ESCAPES[char])
        elif printable(char) and (code < 0x7F or not ascii_only):
            parts.append(char)
        elif code < 0x80:
            parts.append(f"\\x{code:02x}")
        else:
            parts.append(f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
    return f"{delimiter}{''.join(parts)}{delimiter}"


def unquote(literal: str) -> str:
    """The text of a Go string, raw string or rune literal, quotes included. Raises ValueError."""
    delimiter, body = literal[0], literal[1:-1]
    if delimiter == "`":
        return body.replace("\r", "")
    data = bytearray()
    at = 0
    while at < len(body):
        if body[at] != "\\":
            data += body[at].encode("utf-8", "replace")
            at += 1
            continue
        found = _UNESCAPE.match(body, at)
        if found is None or (found["char"] in ("'", '"') and found["char"] != delimiter):
            raise ValueError(f"unknown escape {body[at : at + 2]}")
        data += _unescaped(found)
        at = found.end()
    # \x and \nnn give bytes; like a Go program that prints them, show U+FFFD for broken UTF-8.
    return data.decode("utf-8", "replace")


def _unescaped(found: re.Match[str]) -> bytes:
    if found["char"]:
        return _CHARS[found["char"]].encode()
    if found["octal"] or found["byte"]:
        code = int(found["octal"], 8) if found["octal"] else int(found["byte"], 16)
        if code > 0xFF:
            raise ValueError(f"unknown escape {found[0]}")
        return bytes([code])
    code = int(found["short"] or found["long"], 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise ValueError(f"{found[0]} is not a Unicode code point")
    return chr(code).encode()
