"""SARIF 2.1.0, as GitHub code scanning and GitLab take it.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from enginewatch.evidence.signatures import Severity
from enginewatch.evidence.verdict import Evidence
from enginewatch.preflight.finding import Finding
from enginewatch.preflight.outcome import Report
from enginewatch.preflight.report.words import described, one_line, sentence

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_HOME: Final = "https://github.com/enginewatch/enginewatch"
_LEVELS: Final[Mapping[Severity, str]] = {
    Severity.FATAL: "error",
    Severity.DEGRADED: "error",
    Severity.WARN: "warning",
    Severity.INFO: "note",
}


def render(report: Report) -> str:
    codes = sorted({finding.code for finding in report.findings})
    run = {
        "tool": {
            "driver": {
                "name": "enginewatch",
                "semanticVersion": report.version or "0.0.0",
                "informationUri": _HOME,
                "rules": [_rule(code, report) for code in codes],
            }
        },
        "invocations": [
            {
                "executionSuccessful": True,
                "exitCode": report.outcome.code,
                "toolExecutionNotifications": list(_notifications(report)),
            }
        ],
        "results": [_result(finding, codes) for finding in report.findings],
    }
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2, allow_nan=False)


def _rule(code: str, report: Report) -> dict[str, Any]:
    first = next(finding for finding in report.findings if finding.code == code)
    help_text = " ".join(
        part for part in (sentence(first.advice), f"Source: {first.source}." * bool(first.source))
    )
    return {
        "id": code,
        "name": "".join(word.capitalize() for word in first.verdict.split("_")),
        "shortDescription": {"text": sentence(first.title)},
        "help": {"text": help_text.strip() or sentence(first.title)},
        "defaultConfiguration": {"level": _LEVELS[first.severity]},
        "properties": {"tags": [first.verdict, first.check]},
    }


def _result(finding: Finding, codes: list[str]) -> dict[str, Any]:
    first = next(iter(finding.evidence), None)
    told = f"{finding.code}\0{first.source if first else ''}\0{finding.summary}"
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": codes.index(finding.code),
        # What is unknown is worth reviewing, and no failure (SARIF 3.27.9).
        "kind": "review" if finding.unknown else "fail",
        "level": "none" if finding.unknown else _LEVELS[finding.severity],
        "message": {"text": described(finding)},
        "locations": [_location(each) for each in finding.evidence],
        "partialFingerprints": {"enginewatch/v1": hashlib.sha256(told.encode()).hexdigest()},
        "properties": {
            "verdict": finding.verdict,
            "confidence": str(finding.confidence),
            "fields": dict(finding.fields),
        },
    }
    if finding.accepted:
        result["suppressions"] = [
            {"kind": "external", "status": "accepted", "justification": finding.accepted}
        ]
    return result


def _location(evidence: Evidence) -> dict[str, Any]:
    """A file's place; a flag has none, and is told in words."""
    message = {"text": one_line(evidence.text) or evidence.source}
    if evidence.source.startswith("-"):
        logical = {"fullyQualifiedName": one_line(evidence.source), "kind": "parameter"}
        return {"logicalLocations": [logical], "message": message}
    physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(evidence.source)}}
    if evidence.line > 0:
        physical["region"] = {"startLine": evidence.line}
    return {"physicalLocation": physical, "message": message}


def _uri(source: str) -> str:
    """A relative reference, or `file:` for an absolute path; URLs stay as they are."""
    if source.startswith(("http://", "https://")):
        return source
    path = quote(source.removeprefix("./"), safe="/~")
    return f"file://{path}" if path.startswith("/") else path


def _notifications(report: Report) -> Iterator[dict[str, Any]]:
    for check, reason in report.missing:
        text = f"required check {check} could not be determined: {reason}"
        yield {"level": "error", "message": {"text": text}}
