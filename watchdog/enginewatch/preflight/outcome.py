"""The result of one preflight: findings, what passed, what is not known, and one exit code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from enginewatch.preflight.errors import PreflightError
from enginewatch.preflight.finding import Finding
from enginewatch.preflight.judge import Judged, PreflightRules, Rule
from enginewatch.preflight.sheet import Sheet
from enginewatch.yamltext import closest

_OF_INPUT: Final = "check"
"""The field of a finding on an unread input that names the check that goes without it."""
_INPUTS: Final = "inputs"


class Outcome(Enum):
    """As a word, and as the exit code of the command; 2 is wrong use, and no outcome."""

    PASS = ("pass", 0)
    FAIL = ("fail", 1)
    UNDETERMINED = ("undetermined", 3)

    @property
    def word(self) -> str:
        return self.value[0]

    @property
    def code(self) -> int:
        return self.value[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All that a report can tell. `findings` are worst first.

    `missing` are the required checks that could not be determined, each with the reason.
    """

    findings: tuple[Finding, ...]
    passed: tuple[Rule, ...]
    silent: tuple[Rule, ...]
    sheets: tuple[Sheet, ...]
    inputs: tuple[str, ...]
    missing: tuple[tuple[str, str], ...] = ()
    version: str = ""

    @property
    def outcome(self) -> Outcome:
        """A failure is certain whatever else is not known; where nothing was judged, nothing
        passes."""
        if any(finding.fails for finding in self.findings):
            return Outcome.FAIL
        return Outcome.PASS if self.has_judged and not self.missing else Outcome.UNDETERMINED

    @property
    def has_judged(self) -> bool:
        """Whether anything was said beyond what is known and what is not."""
        said = any(finding.accepted or not finding.unknown for finding in self.findings)
        return said or any(not rule.unknown for rule in self.passed)

    def to_json(self) -> dict[str, Any]:
        return {
            "preflight": 1,
            "version": self.version,
            "outcome": self.outcome.word,
            "exit_code": self.outcome.code,
            "inputs": list(self.inputs),
            "findings": [finding.to_json() for finding in self.findings],
            "passed": [_told(rule) for rule in self.passed],
            "not_judged": [_told(rule) for rule in self.silent],
            "undetermined": [{"check": check, "reason": reason} for check, reason in self.missing],
            "sheets": [sheet.to_json() for sheet in self.sheets],
        }


def _told(rule: Rule) -> dict[str, str]:
    return {"code": rule.code, "check": rule.check, "title": rule.title}


def required(names: Iterable[str], rules: PreflightRules) -> tuple[str, ...]:
    """The checks that must be determined, `all` for every one. Raises PreflightError, for an
    empty name too: a variable that nobody set must not require nothing."""
    wanted: dict[str, None] = {}
    for given in names:
        for name in given.replace(",", " ").split() or [given]:
            if name != "all" and name not in rules.checks:
                hint = closest(name, [*rules.checks, "all"])
                raise PreflightError(f"no check is called {name!r}", where="--require", hint=hint)
            wanted.update(dict.fromkeys(rules.checks if name == "all" else (name,)))
    return tuple(wanted)


def undetermined(judged: Judged, wanted: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Those of the wanted checks that the inputs do not decide."""
    spoke = {f.check for f in judged.findings} | {rule.check for rule in judged.passed}
    for check in wanted:
        unknown = [each for each in judged.findings if each.unknown and not each.accepted]
        reasons = [each.summary for each in unknown if _concerns(each, check)]
        if reasons:
            yield check, reasons[0]
        elif check not in spoke and check != _INPUTS:
            yield check, "nothing that was given says anything about it"


def _concerns(finding: Finding, check: str) -> bool:
    """An input that could not be read may be what any check goes without."""
    if finding.check != _INPUTS or check == _INPUTS:
        return finding.check == check
    return finding.fields.get(_OF_INPUT) in (None, "", check)
