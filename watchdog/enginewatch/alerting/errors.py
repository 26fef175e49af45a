"""Errors of rule files, of the templates inside them, and of rule tests."""

from __future__ import annotations

from collections.abc import Iterable

from enginewatch.errors import EnginewatchError


class RuleError(EnginewatchError):
    """A rule file or a rule test that can't be used."""


class TemplateError(RuleError):
    """An annotation or label template that can't be used.

    `line` and `column` count from 1 and are positions in the template's own text.
    """

    def __init__(self, what: str, *, line: int, column: int, where: str = "", hint: str = ""):
        place = f"{line}:{column}"
        super().__init__(what, where=f"{where}: {place}" if where else place, hint=hint)
        self.line = line
        self.column = column


class RuleFileError(RuleError):
    """Everything that is wrong with the rule files that were read, one line a problem."""

    def __init__(self, problems: Iterable[RuleError]):
        self.problems = tuple(problems)
        first = self.problems[0]
        super().__init__(first.what, where=first.where, hint=first.hint)

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)
