"""Expression text to tokens. Never raises: what is no token becomes a BAD one, with the reason."""

from __future__ import annotations

import re
import unicodedata
from enum import Enum, auto
from typing import Final, NamedTuple


class Kind(Enum):
    WORD = auto()
    NUMBER = auto()
    DURATION = auto()
    STRING = auto()
    MARK = auto()
    END = auto()
    BAD = auto()


class Token(NamedTuple):
    """`text` is what stands at `start <= i < end`; for BAD, what is wrong with it instead."""

    kind: Kind
    text: str
    start: int
    end: int


# Quantifiers are possessive: no input, however hostile, makes the scanner backtrack.
_BLANK = r"(?: [ \t\r\n]++ | \#[^\r\n]*+ )*+"
_DIGITS = r"[0-9]++(?:_[0-9]++)*+"
_HEX = r"0[xX]_?+[0-9a-fA-F]++(?:_[0-9a-fA-F]++)*+"
_DECIMAL = rf"(?:{_DIGITS}(?:\.(?:{_DIGITS})?+)?+|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?+"


def _scanner(word: str, marks: str) -> re.Pattern[str]:
    """One token and the blanks before it; the groups are numbered as `_KINDS` is."""
    return re.compile(
        rf"""{_BLANK} (?:
          ( {word} )
        | ( == | != | =~ | !~ | <= | >= | {marks} )
        | ( " (?: [^"\\\n]++ | \\[^\n] )*+ "
          | ' (?: [^'\\\n]++ | \\[^\n] )*+ '
          | ` [^`]*+ ` )
        | ( (?: {_HEX} | {_DECIMAL} ) (?![A-Za-z0-9_.]) )
        | ( (?: [0-9]++ (?: ms | [smhdwy] ) )++ (?![A-Za-z0-9_.]) )
        | ( \Z )
        )""",
        re.VERBOSE,
    )


_KINDS: Final = (Kind.BAD, Kind.WORD, Kind.MARK, Kind.STRING, Kind.NUMBER, Kind.DURATION, Kind.END)

# A colon belongs to a metric name, except between brackets, where it parts range from step,
# and between braces, where names are those of labels.
_OUTSIDE: Final = _scanner(r"[A-Za-z_:][A-Za-z0-9_:]*+", r"[-+*/%^(){}\[\],=<>@]")
_INSIDE: Final = _scanner(r"[A-Za-z_][A-Za-z0-9_]*+", r"[-+*/%^(){}\[\],=<>@:]")
_SCANNER_AFTER: Final = {"[": _INSIDE, "{": _INSIDE, "]": _OUTSIDE, "}": _OUTSIDE}
_BLANKS: Final = re.compile(_BLANK, re.VERBOSE)
_NUMBER_LIKE: Final = re.compile(r"\.?[0-9][A-Za-z0-9_.]*")


def tokenize(text: str) -> list[Token]:
    """The tokens of `text`, without blanks and comments; the last one is END or BAD."""
    tokens: list[Token] = []
    scanner = _OUTSIDE
    at = 0
    while True:
        match = scanner.match(text, at)
        if match is None:
            tokens.append(_bad(text, at))
            return tokens
        group = match.lastindex or 0
        kind = _KINDS[group]
        start, at = match.span(group)
        token = Token(kind, text[start:at], start, at)
        tokens.append(token)
        if kind is Kind.MARK:
            scanner = _SCANNER_AFTER.get(token.text, scanner)
        elif kind is Kind.END:
            return tokens


def _bad(text: str, at: int) -> Token:
    if blanks := _BLANKS.match(text, at):
        at = blanks.end()
    if number := _NUMBER_LIKE.match(text, at):
        return Token(Kind.BAD, f"bad number or duration {number.group()}", at, number.end())
    char = text[at]
    if char in "\"'`":
        return Token(Kind.BAD, f"unterminated string, expected a closing {char}", at, len(text))
    if char == "!":
        return Token(Kind.BAD, 'unexpected "!", expected != or !~', at, at + 1)
    named = "" if char.isascii() else f" (U+{ord(char):04X} {unicodedata.name(char, 'unnamed')})"
    return Token(Kind.BAD, f"unexpected character {char!a}{named}", at, at + 1)
