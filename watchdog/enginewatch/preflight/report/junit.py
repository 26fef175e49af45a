"""JUnit XML as GitLab, Jenkins and GitHub's reporters read it: a suite a check, a case a rule.

A finding that refuses the rollout is a failure, what is unknown is skipped (an error where
the check is required), and what only warns passes with its text in `system-out`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final
from xml.etree import ElementTree as Xml

from enginewatch.preflight.finding import Finding
from enginewatch.preflight.judge import Rule
from enginewatch.preflight.outcome import Report
from enginewatch.preflight.report.words import described, sentence

_FORBIDDEN: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 can't hold, however it is escaped."""


def render(report: Report) -> str:
    root = Xml.Element("testsuites", name="enginewatch preflight")
    required = dict(report.missing)
    totals = [0, 0, 0, 0]
    spoke = {f.check for f in report.findings} | {rule.check for rule in report.passed}
    for check in sorted(spoke | set(required)):
        counts = _suite(root, report, check, required.get(check))
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
    _count(root, totals)
    Xml.indent(root)
    text: str = Xml.tostring(root, encoding="unicode", xml_declaration=False)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}'


def _suite(root: Xml.Element, report: Report, check: str, reason: str | None) -> Sequence[int]:
    """Adds the suite of a check; its numbers of cases, failures, errors, skipped ones."""
    suite = Xml.SubElement(root, "testsuite", name=f"preflight.{check}")
    counts = [0, 0, 0, 0]
    for finding in (each for each in report.findings if each.check == check):
        counts[0] += 1
        case = _case(suite, check, finding.code, finding.title)
        kind = _kind(finding, is_required=reason is not None)
        if kind is None:
            Xml.SubElement(case, "system-out").text = _clean(described(finding))
            continue
        counts[("failure", "error", "skipped").index(kind) + 1] += 1
        told = Xml.SubElement(case, kind, message=_clean(sentence(finding.summary)))
        if kind != "skipped":
            told.set("type", finding.verdict)
        told.text = _clean(described(finding))
    counts[0] += _passed(suite, check, report.passed)
    if reason is not None and not counts[2]:
        counts[0] += 1
        counts[2] += 1
        case = _case(suite, check, "required", "the check can be determined")
        Xml.SubElement(case, "error", message=_clean(reason), type="undetermined")
    _count(suite, counts)
    return counts


def _kind(finding: Finding, *, is_required: bool) -> str | None:
    if finding.fails:
        return "failure"
    if finding.unknown and not finding.accepted:
        return "error" if is_required else "skipped"
    return None


def _passed(suite: Xml.Element, check: str, rules: Iterable[Rule]) -> int:
    own = [rule for rule in rules if rule.check == check]
    for rule in own:
        _case(suite, check, rule.code, rule.title)
    return len(own)


def _case(suite: Xml.Element, check: str, code: str, title: str) -> Xml.Element:
    name = _clean(f"{code} {title}")
    return Xml.SubElement(suite, "testcase", classname=f"preflight.{check}", name=name, time="0")


def _count(element: Xml.Element, counts: Sequence[int]) -> None:
    for name, count in zip(("tests", "failures", "errors", "skipped"), counts, strict=True):
        element.set(name, str(count))


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
