"""A place in the token stream, and how to complain about what stands there."""

from __future__ import annotations

from typing import NoReturn

from enginewatch.promql.ast import Position
from enginewatch.promql.errors import PromQLError, locate
from enginewatch.promql.lexer import Kind, Token, tokenize


class Cursor:
    """Walks the tokens of one expression; `token` is the one to be read next.

    Keywords are recognised in any case, as in Prometheus.
    """

    def __init__(self, text: str):
        self.text = text
        self._tokens = tokenize(text)
        self._index = 0
        self.token = self._tokens[0]

    def advance(self) -> Token:
        """The current token, and a step past it. END is never passed."""
        token = self.token
        if token.kind is Kind.BAD:
            self.fail(token.text, token)
        if token.kind is not Kind.END:
            self._index += 1
            self.token = self._tokens[self._index]
        return token

    @property
    def following(self) -> Token:
        """The token after the current one."""
        return self._tokens[min(self._index + 1, len(self._tokens) - 1)]

    @property
    def ended(self) -> bool:
        return self.token.kind is Kind.END

    def at(self, mark: str) -> bool:
        # No token of another kind reads like a mark, so the text alone tells.
        return self.token.text == mark

    def take(self, mark: str) -> bool:
        """Step past `mark` if it is next."""
        if self.token.text != mark:
            return False
        self.advance()
        return True

    def word(self) -> str:
        """The current token in lower case if it is a word, else `""`."""
        return self.token.text.lower() if self.token.kind is Kind.WORD else ""

    def expect(self, mark: str, expected: str) -> Token:
        if self.token.text != mark:
            self.unexpected(expected)
        return self.advance()

    def close(self, mark: str, opened: Token, expected: str) -> Token:
        """Expect the mark that closes `opened`, which is named when the text just ends."""
        if self.ended:
            line, column = locate(self.text, opened.start)
            expected = f'"{mark}" to close the "{opened.text}" at {line}:{column}'
        return self.expect(mark, expected)

    def since(self, start: int) -> Position:
        """The span from `start` to the end of the token read last."""
        return Position(start, self._tokens[self._index - 1].end if self._index else start)

    def unexpected(self, expected: str, *, hint: str = "") -> NoReturn:
        token = self.token
        if token.kind is Kind.BAD:
            self.fail(token.text, token)
        after = f" after {_shown(self._tokens[self._index - 1])}" if self._index else ""
        self.fail(f"unexpected {_shown(token)}{after}, expected {expected}", token, hint=hint)

    def fail(self, message: str, at: Position | Token, *, hint: str = "") -> NoReturn:
        place = Position(at.start, at.end)
        raise PromQLError.at(message, self.text, place, hint=hint)


def _shown(token: Token) -> str:
    if token.kind is Kind.END:
        return "end of expression"
    text = token.text if len(token.text) <= 40 else f"{token.text[:37]}..."
    return text if token.kind is Kind.STRING else f'"{text}"'
