"""Words and sentences that several forms of the report share."""

from __future__ import annotations

from typing import Final

from enginewatch.evidence.verdict import Evidence
from enginewatch.preflight.finding import Finding
from enginewatch.preflight.outcome import Outcome, Report

_GIB: Final = 2**30
_MIB: Final = 2**20


def standing(finding: Finding) -> str:
    """What a finding means for the rollout, in one word."""
    if finding.accepted:
        return "accepted"
    return "unknown" if finding.unknown else str(finding.severity)


def place(evidence: Evidence) -> str:
    return f"{evidence.source}:{evidence.line}" if evidence.line else evidence.source


def sentence(text: str) -> str:
    """With a stop, and a capital letter unless it begins with a name (a file, a flag)."""
    line = " ".join(text.split())
    if line and line[-1] not in ".!?":
        line += "."
    return f"{line[:1].upper()}{line[1:]}" if line.partition(" ")[0].isalpha() else line


def described(finding: Finding) -> str:
    """All of a finding in plain lines, for forms that have room for a text only."""
    lines = [sentence(finding.summary)]
    if finding.accepted:
        lines.append(f"Accepted {finding.note}: {finding.accepted}")
    elif finding.note:
        lines.append(sentence(finding.note))
    lines += [f"{place(each)}: {one_line(each.text)}" for each in finding.evidence]
    if finding.advice:
        lines.append(f"Next: {sentence(finding.advice)}")
    if finding.source:
        lines.append(f"Source: {' '.join(finding.source.split())}")
    return "\n".join(lines)


def printable(text: str) -> str:
    """Without anything that a terminal would act on, and in one line."""
    return "".join(char if char.isprintable() else " " for char in text)


def one_line(text: str, longest: int = 200) -> str:
    """The beginning of a text, printable."""
    line = printable(text)
    return line if len(line) <= longest else f"{line[:longest]}…"


def amount(size: int) -> str:
    """Bytes as people compare them with a GPU's memory."""
    if abs(size) >= _GIB // 10:
        return f"{size / _GIB:.2f} GiB"
    return f"{size / _MIB:.2f} MiB" if abs(size) >= _MIB // 10 else f"{size} B"


def conclusion(report: Report) -> str:
    """The last line of a report."""
    if report.outcome is Outcome.FAIL:
        failing = sum(finding.fails for finding in report.findings)
        return f"refused: {failing} of {len(report.findings)} findings fail the rollout"
    if not report.has_judged:
        return "judged nothing: all that was given is unknown, or says nothing that a rule asks for"
    if report.outcome is Outcome.UNDETERMINED:
        checks = ", ".join(check for check, _ in report.missing)
        return f"not determined, and required: {checks}"
    unknown = sum(finding.unknown and not finding.accepted for finding in report.findings)
    rest = f"; {unknown} unknown" if unknown else ""
    return f"passed: {len(report.passed)} checks found nothing{rest}"
