"""A finding: something that a rule of preflight said about the inputs.

As JSON it is the verdict object of `diagnose` (DESIGN.md 4) with the keys that a
pipeline acts on: `code`, `check`, `unknown`, `source`, `accepted`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from enginewatch.evidence.fields import Value
from enginewatch.evidence.signatures import Confidence, Severity
from enginewatch.evidence.verdict import Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`code` never changes its meaning. `check` is the rule file that has the rule.

    `source` tells where the fact behind the rule comes from. `unknown`: this says that
    something could not be determined, and `summary` what is missing for it. `accepted`
    is the reason for which somebody accepts it; `note` adds what became of an
    acceptance (expired).
    """

    code: str
    check: str
    title: str
    verdict: str
    severity: Severity
    confidence: Confidence
    summary: str
    advice: str
    source: str
    fields: Mapping[str, Value]
    evidence: tuple[Evidence, ...]
    unknown: bool = False
    accepted: str = ""
    note: str = ""

    @property
    def fails(self) -> bool:
        """Whether this alone refuses the rollout: known, not accepted, fatal or degraded."""
        worst = self.severity in (Severity.FATAL, Severity.DEGRADED)
        return worst and not self.unknown and not self.accepted

    def to_json(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "check": self.check,
            "title": self.title,
            "verdict": self.verdict,
            "severity": str(self.severity),
            "confidence": str(self.confidence),
            "unknown": self.unknown,
            "summary": self.summary,
            "fields": dict(self.fields),
            "evidence": [each._asdict() for each in self.evidence],
            "advice": self.advice,
            "source": self.source,
            "accepted": self.accepted,
            "note": self.note,
        }
