"""The report that a release engineer reads: what is wrong, then what is known and what is not."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from enginewatch.evidence.fields import Value
from enginewatch.preflight.finding import Finding
from enginewatch.preflight.judge import Rule
from enginewatch.preflight.outcome import Report
from enginewatch.preflight.report.words import (
    amount,
    conclusion,
    one_line,
    place,
    printable,
    sentence,
    standing,
)
from enginewatch.preflight.sheet import Sheet

WIDTH: Final = 100
_STANDING: Final = 9
"""The longest word of `standing` that leads a finding, and a blank."""
_SHOWN: Final = 4
"""Places of evidence that a finding shows."""


def render(report: Report) -> str:
    """Plain text. Every finding with its place, its next step and its source."""
    parts = [
        *(list(_found(alike)) for alike in _alike(report.findings)),
        *(list(_sheet(sheet)) for sheet in report.sheets),
        list(_passed(report.passed)),
        list(_not_judged(report.silent)),
        [f"Required and not determined: {check}: {why}" for check, why in report.missing],
        [f"Preflight {conclusion(report)} (exit {report.outcome.code})"],
    ]
    return "\n\n".join("\n".join(map(printable, lines)) for lines in parts if lines)


def _alike(findings: Iterable[Finding]) -> Iterator[list[Finding]]:
    """Those that say the same of several places (each rank of an engine) together."""
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for each in findings:
        key = (each.code, each.summary, each.advice, each.accepted, each.note, standing(each))
        groups.setdefault(key, []).append(each)
    yield from groups.values()


def _found(alike: Sequence[Finding]) -> Iterator[str]:
    finding = alike[0]
    word = standing(finding)
    shown = word.upper() if finding.fails else word
    lead = f"{shown.ljust(_STANDING)} {finding.code}  "
    indent = " " * (_STANDING + 1)
    yield from _wrapped(sentence(finding.summary), lead, indent)
    sure = "" if finding.confidence == "definite" else f", {finding.confidence}"
    yield f"{indent}{finding.verdict}{sure}"
    evidence = list(dict.fromkeys(where for each in alike for where in each.evidence))
    for each in evidence[:_SHOWN]:
        text = f"at {place(each)}: {one_line(each.text)}"
        yield from _wrapped(text, indent, f"{indent}   ")
    if len(evidence) > _SHOWN:
        yield f"{indent}and at {len(evidence) - _SHOWN} more places"
    told = [f"{name} {_value(value)}" for name, value in _fields(alike).items()]
    if told:
        yield from _wrapped(", ".join(told), indent, indent)
    if finding.accepted:
        yield from _wrapped(f"accepted {finding.note}: {finding.accepted}", indent, indent)
        return
    if finding.note:
        yield from _wrapped(finding.note, indent, indent)
    yield from _wrapped(sentence(finding.advice), f"{indent}next: ", f"{indent}      ")
    if finding.source:
        yield from _wrapped(finding.source, f"{indent}source: ", f"{indent}        ")


def _fields(alike: Sequence[Finding]) -> dict[str, Value]:
    """Those that are known, and the same for all."""
    return {
        name: value
        for name, value in alike[0].fields.items()
        if value is not None and all(each.fields.get(name) == value for each in alike)
    }


def _value(value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else one_line(str(value))


def _sheet(sheet: Sheet) -> Iterator[str]:
    yield sheet.title
    lines = [*((each.what, each.amount, each.note) for each in sheet.lines)]
    lines.append(("sum", sheet.total, ""))
    if sheet.limit is not None:
        lines.append((sheet.limit.what, sheet.limit.amount, sheet.limit.note))
    width = max(len(what) for what, _, _ in lines)
    sizes = [amount(size) for _, size, _ in lines]
    wide = max(map(len, sizes))
    for (what, _, note), size in zip(lines, sizes, strict=True):
        yield f"  {what.ljust(width)}  {size.rjust(wide)}  {note}".rstrip()
    for remark in sheet.remarks:
        yield from _wrapped(sentence(remark), "  ", "  ")


def _passed(rules: Iterable[Rule]) -> Iterator[str]:
    """By check: what was looked at and found to be right."""
    by_check = _by_check(rules)
    if by_check:
        yield "Passed:"
    for check, found in by_check.items():
        titles = "; ".join(rule.title for rule in found)
        yield from _wrapped(f"{check} ({len(found)}): {titles}", "  ", "    ")


def _not_judged(rules: Iterable[Rule]) -> Iterator[str]:
    """Short: most runs give only a part of all inputs."""
    counted = [f"{check} ({len(found)})" for check, found in _by_check(rules).items()]
    if counted:
        told = f"Not judged, for want of something to judge by: {', '.join(counted)}"
        yield from _wrapped(told, "", "  ")


def _by_check(rules: Iterable[Rule]) -> dict[str, list[Rule]]:
    found: dict[str, list[Rule]] = {}
    for rule in sorted(rules, key=lambda rule: (rule.check, rule.code)):
        found.setdefault(rule.check, []).append(rule)
    return found


def _wrapped(text: str, lead: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=lead,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
