"""Errors of the configuration and of target files."""

from __future__ import annotations

from collections.abc import Iterable

from enginewatch.errors import EnginewatchError


class ConfigError(EnginewatchError):
    """A configuration, target file or secret that can't be used; `where` is `file:line: key`."""


class ConfigFileError(ConfigError):
    """Everything that is wrong with one file, one line a problem."""

    def __init__(self, problems: Iterable[ConfigError]):
        self.problems = tuple(problems)
        first = self.problems[0]
        super().__init__(first.what, where=first.where, hint=first.hint)

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)
