"""Template text to tokens, as Go's text/template splits it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, NoReturn

from enginewatch.alerting.errors import TemplateError
from enginewatch.alerting.template import strconv
from enginewatch.alerting.template.values import GoError


class Kind(StrEnum):
    """Kinds of tokens; the values are what a message calls them."""

    TEXT = "text"
    OPEN = "{{"
    CLOSE = "}}"
    STRING = "string"
    NUMBER = "number"
    NAME = "name"
    FIELD = "field"
    VARIABLE = "variable"
    DOT = "."
    PIPE = "|"
    LEFT = "("
    RIGHT = ")"
    DECLARE = ":="
    ASSIGN = "="
    COMMA = ","
    END = "end of the text"


class Token(NamedTuple):
    """`value` is decoded for strings and numbers; `spaced` tells of a blank in front."""

    kind: Kind
    value: str | int | float
    at: int
    spaced: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """The text of a template, and the file and key it came from."""

    text: str
    where: str = ""

    def place(self, at: int) -> tuple[int, int]:
        """Line and column of an offset, both from 1."""
        return self.text.count("\n", 0, at) + 1, at - self.text.rfind("\n", 0, at)

    def fail(self, what: str, at: int, hint: str = "") -> NoReturn:
        """Raise TemplateError for the place `at`."""
        line, column = self.place(at)
        raise TemplateError(what, line=line, column=column, where=self.where, hint=hint)


_BLANK: Final = " \t\r\n"
_TRIM_LEFT: Final = tuple(f"-{blank}" for blank in _BLANK)
_CLOSE_TRIMMED: Final = tuple(f"{blank}-}}}}" for blank in _BLANK)
_TOKENS: Final = re.compile(
    r"""
      (?P<space>   [ \t\r\n]+ )
    | (?P<close>   \}\} )
    | (?P<string>  "(?:[^"\\\n]|\\.)*" | `[^`]*` )
    | (?P<rune>    '(?:[^'\\\n]|\\.)*' )
    | (?P<number>  [+-]?\.?[0-9](?:[eEpP][+-]|[a-zA-Z0-9_.])* )
    | (?P<field>   \.[^\W\d]\w* )
    | (?P<variable>\$\w* )
    | (?P<name>    [^\W\d]\w* )
    | (?P<mark>    := | [.|()=,] )
    """,
    re.VERBOSE,
)
# What may follow a name, field or variable directly; `$x=1` and `.a-b` are not Go.
_AFTER_WORD: Final = re.compile(r"[ \t\r\n.,|:)(]|\}\}|\Z")


def tokenize(source: Source) -> Iterator[Token]:
    """The tokens, the last of kind END. Raises TemplateError."""
    text = source.text
    at, trim = 0, False
    while True:
        found = text.find("{{", at)
        start = found if found >= 0 else len(text)
        chunk = text[at:start].lstrip(_BLANK) if trim else text[at:start]
        inside = start + 2
        if text.startswith(_TRIM_LEFT, inside):
            chunk = chunk.rstrip(_BLANK)
            inside += 2
        if chunk:
            yield Token(Kind.TEXT, chunk, at)
        if found < 0:
            yield Token(Kind.END, "", len(text))
            return
        if text.startswith("/*", inside):
            at, trim = _comment(source, inside)
            continue
        yield Token(Kind.OPEN, "{{", start)
        at = inside
        while True:
            token, at = _next(source, at)
            yield token
            if token.kind is Kind.CLOSE:
                trim = token.value == "-}}"
                break


def _comment(source: Source, at: int) -> tuple[int, bool]:
    """Where the text goes on after a comment, and whether its blanks are to be trimmed."""
    end = source.text.find("*/", at)
    if end < 0:
        source.fail("comment without an end", at, "close it with */}}")
    trimmed = source.text.startswith(_CLOSE_TRIMMED, end + 2)
    if not trimmed and not source.text.startswith("}}", end + 2):
        source.fail("comment ends before the closing }}", end, "write {{/* a comment alone */}}")
    return end + (6 if trimmed else 4), trimmed


def _next(source: Source, start: int) -> tuple[Token, int]:
    """The token inside an action at or after the blanks at `start`, and where it ends."""
    text, at = source.text, start
    found = _TOKENS.match(text, at)
    spaced = found is not None and found.lastgroup == "space"
    if found is not None and spaced:
        at = found.end()
        if text.startswith("-}}", at):
            return Token(Kind.CLOSE, "-}}", at, True), at + 3
        found = _TOKENS.match(text, at)
    if at >= len(text):
        source.fail("action without an end", start, "close it with }}")
    if found is None:
        what = "text without a closing quote" if text[at] in "\"'`" else f"stray {text[at]!r}"
        source.fail(f"{what} in an action", at)
    word, end = found[0], found.end()
    match found.lastgroup:
        case "close":
            return Token(Kind.CLOSE, word, at, spaced), end
        case "string" | "rune":
            return Token(*_quoted(source, word, at), at, spaced), end
        case "number":
            return Token(Kind.NUMBER, _number(source, word, at), at, spaced), end
        case "mark":
            return Token(Kind(word), word, at, spaced), end
    if not _AFTER_WORD.match(text, end):
        source.fail(f"stray {text[end]!r} after {word}", end, "put a blank between them")
    kind = {"field": Kind.FIELD, "variable": Kind.VARIABLE}.get(found.lastgroup or "", Kind.NAME)
    return Token(kind, word, at, spaced), end


def _quoted(source: Source, word: str, at: int) -> tuple[Kind, str | int]:
    try:
        text = strconv.unquote(word)
    except ValueError as failure:
        source.fail(f"in {word}: {failure}", at)
    if word[0] != "'":
        return Kind.STRING, text
    if len(text) != 1:
        source.fail(f"{word} is not one character", at, "a string takes double quotes")
    return Kind.NUMBER, ord(text)


def _number(source: Source, word: str, at: int) -> int | float:
    """A number as Go reads it: 10, 0x1F, 0b1, 017, 1_000, 1.5, 1e3, 0x1p-2."""
    try:
        octal = re.fullmatch(r"([+-]?)0_?([0-7_]+)", word)
        value = int(f"{octal[1]}0o{octal[2]}" if octal else word, 0)
    except ValueError:
        if word.endswith("i"):
            source.fail(f"imaginary number {word} is not supported", at)
        try:
            # A whole number that Go can't read as one (089) isn't a float either.
            return strconv.parse_float(word if re.search("[.eEpP]", word) else "")
        except GoError:
            source.fail(f"bad number {word}", at)
    if not -(2**63) <= value < 2**63:
        source.fail(f"{word} does not fit an int", at, "write it as a float: 1e20")
    return value
