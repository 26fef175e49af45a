"""Protocol buffers' text format, the part that Triton's `config.pbtxt` is written in.

Scalars, messages in `{}` or `<>`, lists in `[]`, strings that follow one another, `#`
comments, `,` and `;` between fields. No schema: a field that stands more than once is a
list, and a word that is no number is a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from enginewatch.errors import EnginewatchError

Scalar = str | int | float | bool
Message = Mapping[str, "tuple[Value, ...]"]
Value = Scalar | Message

_DEEPEST: Final = 50
_LONGEST_NUMBER: Final = 100
_TOKEN: Final = re.compile(
    r"""
    (?P<space>[ \t\r\n\f\v]+|\#[^\n]*)
  | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
  | (?P<number>[-+]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[fF]?))(?![\w.])
  | (?P<word>-?[A-Za-z_][\w.-]*)
  | (?P<sign>[{}<>\[\]:,;])
    """,
    re.VERBOSE,
)
_ESCAPE: Final = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|(.))", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_CLOSES: Final = {"{": "}", "<": ">"}
_WORDS: Final[Mapping[str, Scalar]] = {"true": True, "false": False, "True": True, "False": False}


class PbtxtError(EnginewatchError):
    """Not protobuf text: what was found, and at which line and column."""


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def parse(text: str, where: str) -> Message:
    """Raises PbtxtError."""
    return _Parser(text, where).message("", 0)


def first(message: Message, name: str) -> Value | None:
    """The last value of a field, as protobuf reads a scalar; None where it is absent."""
    values = message.get(name, ())
    return values[-1] if values else None


def text_of(message: Message, name: str) -> str:
    found = first(message, name)
    return found if isinstance(found, str) else ""


def messages(message: Message, name: str) -> Iterator[Message]:
    """Every message of a field."""
    for value in message.get(name, ()):
        if isinstance(value, Mapping):
            yield value


class _Parser:
    def __init__(self, text: str, where: str):
        self._text: Final = text
        self._where: Final = where
        self._tokens: Final = list(self._lex())
        self._next = 0

    def _lex(self) -> Iterator[_Token]:
        at = 0
        while at < len(self._text):
            found = _TOKEN.match(self._text, at)
            if found is None:
                raise self._error(f"{self._text[at]!r} can't stand here", at)
            kind = found.lastgroup or ""
            if kind != "space":
                yield _Token(kind, found[0], at)
            at = found.end()
        yield _Token("end", "the end", at)

    def message(self, closes: str, depth: int) -> Message:
        if depth > _DEEPEST:
            raise self._error("nested too deeply", self._peek.at)
        fields: dict[str, tuple[Value, ...]] = {}
        while True:
            token = self._take()
            if token.text == closes and token.kind == "sign":
                return fields
            if token.kind == "end":
                if not closes:
                    return fields
                raise self._error(f"a {closes!r} is missing", token.at)
            if token.kind != "word":
                raise self._error(f"{token.text} stands where a field's name should be", token.at)
            found = tuple(self._values(token, depth))
            fields[token.text] = fields.get(token.text, ()) + found
            if self._peek.text in (",", ";"):
                self._take()

    def _values(self, name: _Token, depth: int) -> Iterator[Value]:
        colon = self._peek.text == ":" and self._peek.kind == "sign"
        if colon:
            self._take()
        if self._peek.text == "[" and self._peek.kind == "sign":
            self._take()
            yield from self._list(depth)
            return
        if not colon and self._peek.text not in _CLOSES:
            raise self._error(f"{name.text} has no ':'", self._peek.at)
        yield self._value(depth)

    def _list(self, depth: int) -> Iterator[Value]:
        while self._peek.text != "]":
            yield self._value(depth)
            if self._peek.text == ",":
                self._take()
            elif self._peek.text != "]":
                raise self._error("a ',' or ']' is missing", self._peek.at)
        self._take()

    def _value(self, depth: int) -> Value:
        token = self._take()
        if token.kind == "sign" and token.text in _CLOSES:
            return self.message(_CLOSES[token.text], depth + 1)
        if token.kind == "string":
            parts = [_string(token.text)]
            while self._peek.kind == "string":
                parts.append(_string(self._take().text))
            return "".join(parts)
        if token.kind == "number":
            if len(token.text) > _LONGEST_NUMBER:
                raise self._error("a number of too many digits", token.at)
            return _number(token.text)
        if token.kind == "word":
            return _WORDS.get(token.text, token.text)
        raise self._error(f"{token.text} stands where a value should be", token.at)

    @property
    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._peek
        if token.kind != "end":
            self._next += 1
        return token

    def _error(self, what: str, at: int) -> PbtxtError:
        before = self._text[:at]
        line, column = before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1
        return PbtxtError(what, where=f"{self._where}:{line}:{column}")


def _number(text: str) -> int | float:
    plain = text.lower()
    if "x" in plain:
        return int(plain, 16)
    if re.fullmatch(r"[-+]?\d+", plain):
        return int(plain)
    return float(plain.rstrip("f"))


def _string(text: str) -> str:
    def value(found: re.Match[str]) -> str:
        octal, hexadecimal, one = found.groups()
        if octal is not None:
            return chr(int(octal, 8))
        if hexadecimal is not None:
            return chr(int(hexadecimal, 16))
        return _ESCAPES.get(one, one)

    return _ESCAPE.sub(value, text[1:-1])
