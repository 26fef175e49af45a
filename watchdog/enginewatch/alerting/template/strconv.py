"""Floats as Go's strconv reads them, and strings as it quotes them."""

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
