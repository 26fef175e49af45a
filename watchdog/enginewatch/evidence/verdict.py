"""The answer: one most likely verdict, what it rests on, and what it is not.

The same JSON comes from `diagnose`, preflight, the API and the chaos journal
(DESIGN.md 4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from enginewatch.evidence.fields import Value
from enginewatch.evidence.signatures import Confidence, Severity

BENIGN: Final = "benign"


class Evidence(NamedTuple):
    """A line of a source; `line` counts from 1, and is 0 for what no single line says.

    Secrets are struck out of `text`.
    """

    source: str
    line: int
    text: str


class Excluded(NamedTuple):
    """A verdict that was considered, and why it is not the answer."""

    verdict: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`fields` are values that stand in the input, `derived` what was concluded from them."""

    verdict: str
    severity: Severity
    confidence: Confidence
    summary: str
    fields: Mapping[str, Value]
    derived: Mapping[str, Value]
    evidence: tuple[Evidence, ...]
    advice: str
    excluded: tuple[Excluded, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_finding(self) -> bool:
        return self.verdict != BENIGN

    def to_json(self) -> dict[str, Any]:
        """As a JSON object. `fields` holds the derived ones too; `derived` tells them apart."""
        return {
            "verdict": self.verdict,
            "severity": str(self.severity),
            "confidence": str(self.confidence),
            "summary": self.summary,
            "fields": {**self.derived, **self.fields},
            "derived": dict(self.derived),
            "evidence": [each._asdict() for each in self.evidence],
            "advice": self.advice,
            "excluded": [each._asdict() for each in self.excluded],
            "notes": list(self.notes),
        }
