"""What goes wrong with an expression, and where in its text."""

from __future__ import annotations

from typing import Final, Self

from enginewatch.errors import EnginewatchError
from enginewatch.promql.ast import Position

MAX_MESSAGE: Final = 300
MAX_EXCERPT: Final = 120
"""Characters. An expression may be a megabyte of somebody's mistake; what is said about it not."""


class PromQLError(EnginewatchError):
    """An expression that cannot be parsed or is not supported.

    `line` and `column` count from 1, in characters, and are 0 where the place is
    not known. `expr_text` is the whole expression as written.
    """

    def __init__(
        self,
        message: str,
        line: int = 0,
        column: int = 0,
        expr_text: str = "",
        *,
        hint: str = "",
        width: int = 1,
    ):
        super().__init__(message, where=f"{line}:{column}" if line else "", hint=hint)
        self.message = message
        self.line = line
        self.column = column
        self.expr_text = expr_text
        self._width = width

    @classmethod
    def at(cls, message: str, text: str, pos: Position, *, hint: str = "") -> Self:
        """An error about the span `pos` of the expression `text`."""
        line, column = locate(text, pos.start)
        if len(message) > MAX_MESSAGE:
            message = f"{message[: MAX_MESSAGE - 3]}..."
        return cls(message, line, column, text, hint=hint, width=pos.end - pos.start)

    def excerpt(self) -> str:
        """The line in question with the culprit underlined, or `""` without a place.

        Tabs are shown as spaces, so that the carets stand where they should; of a long
        line, the part around the culprit is shown.
        """
        if not self.line:
            return ""
        shown = _lines(self.expr_text)[self.line - 1].replace("\t", " ").rstrip()
        before = self.column - 1
        if len(shown) > MAX_EXCERPT:
            cut = max(0, before - MAX_EXCERPT // 2)
            shown, before = shown[cut : cut + MAX_EXCERPT], before - cut
        width = max(1, min(self._width, len(shown) - before))
        return f"{shown}\n{' ' * before}{'^' * width}"


class EvaluationError(PromQLError):
    """An expression that parsed and cannot be computed, such as a match that is many-to-many."""


def locate(text: str, offset: int) -> tuple[int, int]:
    """The line and column, from 1, of a character offset in `text`."""
    before = _lines(text[:offset])
    return len(before), len(before[-1]) + 1


def _lines(text: str) -> list[str]:
    """Lines as editors count them; `splitlines` would also break at form feeds and the like."""
    return text.replace("\r\n", " \n").replace("\r", "\n").split("\n")
