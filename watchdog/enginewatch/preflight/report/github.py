"""GitHub Actions' workflow commands: an annotation for each finding.

The escapes are those of actions/toolkit, packages/core/src/command.ts.
"""

from __future__ import annotations

from collections.abc import Iterator

from enginewatch.preflight.finding import Finding
from enginewatch.preflight.outcome import Report
from enginewatch.preflight.report.words import conclusion, described, standing


def render(report: Report) -> str:
    return "\n".join(_lines(report))


def _lines(report: Report) -> Iterator[str]:
    for finding in report.findings:
        yield _annotation(finding)
    for check, reason in report.missing:
        yield f"::error title=preflight {_property(check)}::{_data(f'required: {reason}')}"
    yield f"Preflight {_data(conclusion(report))}"


def _annotation(finding: Finding) -> str:
    properties = [f"title={_property(f'{finding.code} {finding.verdict} ({standing(finding)})')}"]
    place = next(iter(finding.evidence), None)
    # A flag is no file: an annotation on one would point at nothing.
    if place is not None and not place.source.startswith("-"):
        properties.insert(0, f"file={_property(place.source)}")
        if place.line:
            properties.insert(1, f"line={place.line}")
    return f"::{_level(finding)} {','.join(properties)}::{_data(described(finding))}"


def _level(finding: Finding) -> str:
    if finding.fails:
        return "error"
    quiet = finding.accepted or finding.severity == "info"
    return "notice" if quiet else "warning"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
