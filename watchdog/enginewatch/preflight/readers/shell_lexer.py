"""The words and operators of shell text: quotes, comments, continuation lines, here-documents.

The grammar is POSIX' (Shell Command Language, 2.2 to 2.7) with bash's `$'...'`,
arrays and `[[ ]]`. Nothing is run and nothing expanded: `shell.py` does that.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from enginewatch.errors import EnginewatchError

_OPERATORS: Final = (
    "<<<", "<<-", "&>>", ";;&", "&&", "||", ";;", ";&", "<<", ">>", "<&", ">&", "<>", ">|", "&>",
    "|&", ";", "&", "|", "<", ">", "(", ")",
)  # fmt: skip
_BREAKS: Final = frozenset(" \t\n;&|<>()")
_PLAIN: Final = re.compile(r"[^\s;&|<>()\\'\"$`]+")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "e": "\x1b"}
_NAME_START: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_NAME: Final = _NAME_START | frozenset("0123456789")
_SPECIAL: Final = frozenset("@*#?$!-0123456789")
_DEEPEST: Final = 40


class ShellError(EnginewatchError):
    """Text that no shell would run: a quote or a bracket that nothing closes."""


class Part(NamedTuple):
    """A piece of a word: literal text, or what stands for something else.

    `kind` is `text`, `variable` (`text` is its name, `rest` what follows the name
    inside braces) or `unknown` (a command substitution or arithmetic, as written).
    """

    kind: str
    text: str
    quoted: bool
    rest: str = ""


@dataclass(slots=True)
class Token:
    """A word, an operator, or the end of a line (`\\n`); `raw` is as written, `line` from 1."""

    raw: str
    line: int
    parts: list[Part] | None = None
    body: str | None = None
    """Of the delimiter after `<<`: the here-document."""
    joined: bool = False
    """An operator that stands against the word before it: `A=(`, `2>`."""
    traps: list[str] = field(default_factory=list)
    """What in the word is legal and hardly ever meant: `escaped blank`."""


def tokens(text: str, name: str, first_line: int = 1) -> list[Token]:
    """Raises ShellError, with a place in `name`, where a quote or a bracket is not closed."""
    return _Lexer(text.replace("\r\n", "\n"), name, first_line).run()


class _Lexer:
    def __init__(self, text: str, name: str, first_line: int):
        self.text = text
        self.name = name
        self.first_line = first_line
        self.breaks = [at for at, char in enumerate(text) if char == "\n"]
        self.at = 0
        self.found: list[Token] = []
        self.waiting: list[tuple[Token, bool]] = []
        """Delimiters of here-documents whose bodies begin at the next line; True for `<<-`."""

    def run(self) -> list[Token]:
        text = self.text
        while self.at < len(text):
            char = text[self.at]
            if char in " \t\r":
                self.at += 1
            elif text.startswith("\\\n", self.at):
                self.at += 2
            elif char == "\n":
                self.found.append(Token("\n", self.line()))
                self.at += 1
                self._here_documents()
            elif char == "#":
                end = text.find("\n", self.at)
                self.at = len(text) if end < 0 else end
            else:
                operator = next((op for op in _OPERATORS if text.startswith(op, self.at)), None)
                if operator is None:
                    self._word()
                else:
                    self._operator(operator)
        return self.found

    def line(self, at: int | None = None) -> int:
        return bisect_left(self.breaks, self.at if at is None else at) + self.first_line

    def fail(self, what: str, at: int) -> ShellError:
        before = self.text.rfind("\n", 0, at) + 1
        return ShellError(what, where=f"{self.name}:{self.line(at)}:{at - before + 1}")

    def _operator(self, operator: str) -> None:
        joined = self.at > 0 and self.text[self.at - 1] not in _BREAKS
        self.found.append(Token(operator, self.line(), joined=joined))
        self.at += len(operator)

    def _word(self) -> None:
        start = self.at
        parts: list[Part] = []
        token = Token("", self.line(), parts)
        while self.at < len(self.text) and self.text[self.at] not in _BREAKS:
            char = self.text[self.at]
            if char == "\\":
                self._escape(parts, token)
            elif char == "'":
                self._single(parts)
            elif char == '"':
                self._double(parts)
            elif self.text.startswith("$'", self.at):
                self._ansi(parts)
            elif char == "$":
                self._dollar(parts, quoted=False)
            elif char == "`":
                self._backquote(parts, quoted=False)
            else:
                plain = _PLAIN.match(self.text, self.at)
                parts.append(Part("text", plain[0] if plain else char, False))
                self.at += len(parts[-1].text)
        token.raw = self.text[start : self.at]
        before = self.found[-1].raw if self.found else ""
        if before in {"<<", "<<-"}:
            self.waiting.append((token, before == "<<-"))
        self.found.append(token)

    def _escape(self, parts: list[Part], token: Token) -> None:
        following = self.text[self.at + 1 : self.at + 2]
        if following == "\n":
            self.at += 2
            return
        rest = self.text[self.at + 1 :].split("\n", 1)[0]
        if following in {" ", "\t"} and not rest.strip():
            token.traps.append("escaped blank")
        parts.append(Part("text", following or "\\", True))
        self.at += 2

    def _single(self, parts: list[Part]) -> None:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            raise self.fail("a ' is never closed", self.at)
        parts.append(Part("text", self.text[self.at + 1 : end], True))
        self.at = end + 1

    def _ansi(self, parts: list[Part]) -> None:
        start, at, chars = self.at, self.at + 2, []
        while at < len(self.text) and self.text[at] != "'":
            if self.text[at] == "\\" and at + 1 < len(self.text):
                at += 1
                chars.append(_ESCAPES.get(self.text[at], "\\" + self.text[at]))
            else:
                chars.append(self.text[at])
            at += 1
        if at >= len(self.text):
            raise self.fail("a $' is never closed", start)
        parts.append(Part("text", "".join(chars), True))
        self.at = at + 1

    def _double(self, parts: list[Part]) -> None:
        start = self.at
        self.at += 1
        parts.append(Part("text", "", True))
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == '"':
                self.at += 1
                return
            if char == "\\" and self.text[self.at + 1 : self.at + 2] in {*'$`"\\\n'}:
                following = self.text[self.at + 1]
                parts.append(Part("text", "" if following == "\n" else following, True))
                self.at += 2
            elif char == "$":
                self._dollar(parts, quoted=True)
            elif char == "`":
                self._backquote(parts, quoted=True)
            else:
                parts.append(Part("text", char, True))
                self.at += 1
        raise self.fail('a " is never closed', start)

    def _dollar(self, parts: list[Part], *, quoted: bool) -> None:
        text, start = self.text, self.at
        following = text[start + 1 : start + 2]
        if following == "(":
            self.at = self._closing(start + 1, "(", ")")
            parts.append(Part("unknown", text[start : self.at], quoted))
        elif following == "{":
            self.at = self._closing(start + 1, "{", "}")
            parts.append(_braced(text[start : self.at], quoted))
        elif following in _SPECIAL and following:
            self.at += 2
            parts.append(Part("variable", following, quoted))
        elif following in _NAME_START and following:
            self.at += 1
            while self.at < len(text) and text[self.at] in _NAME:
                self.at += 1
            parts.append(Part("variable", text[start + 1 : self.at], quoted))
        else:
            self.at += 1
            parts.append(Part("text", "$", quoted))

    def _backquote(self, parts: list[Part], *, quoted: bool) -> None:
        at = self.at + 1
        while at < len(self.text) and self.text[at] != "`":
            at += 2 if self.text[at] == "\\" else 1
        if at >= len(self.text):
            raise self.fail("a ` is never closed", self.at)
        parts.append(Part("unknown", self.text[self.at : at + 1], quoted))
        self.at = at + 1

    def _closing(self, start: int, opens: str, closes: str) -> int:
        """The place behind the bracket that closes the one at `start`, quotes left alone."""
        depth, at, quote = 0, start, ""
        while at < len(self.text):
            char = self.text[at]
            if char == "\\" and quote != "'":
                at += 2
                continue
            if quote:
                quote = "" if char == quote else quote
            elif char in "'\"":
                quote = char
            elif char == opens:
                depth += 1
                if depth > _DEEPEST:
                    raise self.fail("nested too deeply", at)
            elif char == closes:
                depth -= 1
                if not depth:
                    return at + 1
            at += 1
        raise self.fail(f"a ${opens} is never closed", start - 1)

    def _here_documents(self) -> None:
        for token, tabs in self.waiting:
            end = "".join(part.text for part in token.parts or ())
            lines: list[str] = []
            while self.at < len(self.text):
                stop = self.text.find("\n", self.at)
                stop = len(self.text) if stop < 0 else stop
                line = self.text[self.at : stop]
                self.at = min(stop + 1, len(self.text))
                line = line.lstrip("\t") if tabs else line
                if line == end:
                    break
                lines.append(line)
            else:
                raise ShellError(
                    f"the here-document {end!r} is never ended", where=f"{self.name}:{token.line}"
                )
            token.body = "".join(f"{line}\n" for line in lines)
        self.waiting.clear()


def _braced(raw: str, quoted: bool) -> Part:
    """`${NAME...}`; an indirection, a length or an index that is not all is unknown."""
    inside = raw[2:-1]
    end = 0
    while end < len(inside) and inside[end] in _NAME:
        end += 1
    name, rest = inside[:end], inside[end:]
    if not name and inside[:1] in _SPECIAL and inside[1:2] in {"", ":", "-", "+"}:
        name, rest = inside[:1], inside[1:]
    if not name:
        return Part("unknown", raw, quoted)
    return Part("variable", name, quoted, rest)
