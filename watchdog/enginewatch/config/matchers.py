"""Label matchers as Alertmanager writes them: `severity=~"page|ticket"`, `{a="b", c!="d"}`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from enginewatch.model import Matcher, MatchOp

_NAME: Final = re.compile(r'[a-zA-Z_:][a-zA-Z0-9_:]*|"(?:[^"\\]|\\.)+"', re.ASCII | re.DOTALL)
_OPERATOR: Final = re.compile(r"=~|!~|!=|=")
_VALUE: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s"\'`,{}=!~\\]+', re.DOTALL)
_BLANK: Final = re.compile(r"\s*")
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)


def parse_matchers(text: str) -> tuple[Matcher, ...]:
    """One matcher or several with commas between them, in braces or not; `{}` is none at all.

    Values, and names that are no plain words, stand in double quotes, with `\\"`,
    `\\\\` and `\\n` for what can't stand there itself; any other backslash is kept, as
    a pattern's `\\d` needs none doubled. Raises ValueError that shows the place.
    """
    inner = text.strip()
    if inner.startswith("{"):
        if not inner.endswith("}"):
            raise ValueError(f"{text!r} is no matcher: a brace is left open")
        inner = inner[1:-1].strip()
        if not inner:
            return ()
    elif inner.endswith("}"):
        raise ValueError(f"{text!r} is no matcher: a brace is closed that was not opened")
    return tuple(_matchers(inner))


def _matchers(text: str) -> Iterator[Matcher]:
    at = 0
    while True:
        name, at = _take(text, at, _NAME, "a label's name")
        op, at = _take(text, at, _OPERATOR, "one of = != =~ !~")
        value, at = _take(text, at, _VALUE, "a value, best in double quotes")
        yield Matcher(_unquoted(name), MatchOp(op), _unquoted(value))
        if at == len(text):
            return
        _, at = _take(text, at, re.compile(","), "a comma, or the end")
        if at == len(text):  # a comma may end the list, as in PromQL
            return


def _take(text: str, at: int, token: re.Pattern[str], wanted: str) -> tuple[str, int]:
    """The token at a place, and the place after it and the blanks behind it."""
    found = token.match(text, at)
    if found is None:
        there = f"{text[at:]!r} stands" if at < len(text) else "it ends"
        raise ValueError(f"{text!r} is no matcher: {wanted} should be where {there}")
    blank = _BLANK.match(text, found.end())
    return found.group(), blank.end() if blank else found.end()


def _unquoted(token: str) -> str:
    if not token.startswith('"'):
        return token
    plain = {"n": "\n", '"': '"', "\\": "\\"}
    return _ESCAPE.sub(lambda m: plain.get(m.group(1), m.group()), token[1:-1])
