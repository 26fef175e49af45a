"""Errors of signature files, of the tables beside them, and of inputs to diagnose."""

from __future__ import annotations

from collections.abc import Sequence

from enginewatch.errors import EnginewatchError


class EvidenceError(EnginewatchError):
    """An input that can't be read at all; what can be read in part is read and said so."""


class SignatureError(EnginewatchError):
    """A signature file, or a table it needs, that can't be used: every problem, one a line."""

    def __init__(self, problems: Sequence[EnginewatchError]):
        self.problems = tuple(problems)
        first = self.problems[0]
        super().__init__(first.what, where=first.where, hint=first.hint)

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)
