"""From findings to one verdict: what explains what, and which of the rest weighs most."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from enginewatch.evidence.assemble import Fact, Ground, assemble
from enginewatch.evidence.incident import Finding, Seen
from enginewatch.evidence.pack import VerdictRule
from enginewatch.evidence.signatures import Confidence, Severity
from enginewatch.evidence.verdict import BENIGN, Evidence, Excluded, Verdict

_SHOWN: Final = 12
"""Evidence lines of a verdict; the first of each finding come before more of any."""

Verdicts = Mapping[str, VerdictRule]

_Causes = Mapping[int, Finding | None]
"""By the identity of a finding, what explains it."""


def judge(
    findings: Sequence[Finding],
    seen: Seen,
    facts: Sequence[Fact],
    verdicts: Verdicts,
    notes: Sequence[str] = (),
) -> Verdict:
    """The verdict on everything that was found. Nothing found is benign, and only suspected."""
    if not findings:
        return _nothing_found(notes)
    ranked = sorted(findings, key=lambda finding: _rank(finding, verdicts))
    causes = {id(finding): _cause(finding, ranked, verdicts) for finding in ranked}
    best = next((f for f in ranked if causes[id(f)] is None), ranked[0])
    chosen = [finding for finding in ranked if finding.verdict == best.verdict]
    chosen.sort(key=lambda finding: finding is not best)
    followers = [
        finding
        for finding in ranked
        if finding.verdict != best.verdict and _follows(finding, best.verdict, causes)
    ]
    ground = Ground(best=best, chosen=chosen, followers=followers, seen=seen, facts=facts)
    fields = assemble(ground, verdicts[best.verdict].derived)
    as_certain = [finding for finding in chosen if finding.confidence is best.confidence]
    return Verdict(
        verdict=best.verdict,
        severity=max((finding.severity for finding in as_certain), key=lambda each: each.weight),
        confidence=best.confidence,
        summary=best.summary,
        fields=fields.read,
        derived=fields.derived,
        evidence=_evidence([*chosen, *followers], fields.used),
        advice=best.advice or verdicts[best.verdict].advice,
        excluded=tuple(_excluded(ranked, best, causes)),
        notes=tuple(notes),
    )


def _nothing_found(notes: Sequence[str]) -> Verdict:
    return Verdict(
        verdict=BENIGN,
        severity=Severity.INFO,
        confidence=Confidence.SUSPECT,
        summary="nothing that is known to be a failure was found",
        fields={},
        derived={},
        evidence=(),
        advice="That is no proof of health: look at the metrics, and send a one-token request.",
        notes=tuple(notes),
    )


def _rank(finding: Finding, verdicts: Verdicts) -> tuple[bool, bool, bool, int, int, str, int]:
    """Smaller leads: failures, then certainty, then severity, then the order of verdicts.

    What is only worth knowing gives way to any suspicion of something worse.
    """
    first = min(((each.source, each.line) for each in finding.evidence), default=("", 0))
    return (
        finding.verdict == BENIGN,
        finding.severity is Severity.INFO,
        finding.confidence is not Confidence.DEFINITE,
        -finding.severity.weight,
        list(verdicts).index(finding.verdict),
        *first,
    )


def _cause(finding: Finding, ranked: Iterable[Finding], verdicts: Verdicts) -> Finding | None:
    """The strongest finding that explains this one, if any does."""
    for other in ranked:
        if (
            other.verdict != finding.verdict
            and _explains(other, finding, verdicts)
            and not _explains(finding, other, verdicts)
        ):
            return other
    return None


def _explains(cause: Finding, effect: Finding, verdicts: Verdicts) -> bool:
    if {effect.verdict, effect.key} & cause.explains:
        return True
    if {cause.verdict, cause.key} & effect.explained_by:
        return True
    # A guess does not explain away what is certain.
    certain = cause.confidence is Confidence.DEFINITE or effect.confidence is Confidence.SUSPECT
    return certain and effect.verdict in verdicts[cause.verdict].explains


def _follows(effect: Finding, verdict: str, causes: _Causes) -> bool:
    """Whether the chain of causes of a finding leads to a verdict."""
    at: Finding | None = effect
    for _ in range(len(causes) + 1):
        if at is None:
            return False
        if at.verdict == verdict:
            return True
        at = causes[id(at)]
    return False


def _excluded(ranked: Sequence[Finding], best: Finding, causes: _Causes) -> Iterator[Excluded]:
    told = {best.verdict}
    for finding in ranked:
        for verdict in finding.rules_out:
            if verdict not in told:
                told.add(verdict)
                yield Excluded(verdict, finding.summary)
    for finding in ranked:
        if finding.verdict not in told:
            told.add(finding.verdict)
            reason = _reason(finding, best, causes[id(finding)])
            yield Excluded(finding.verdict, f"{reason}: {finding.summary}")


def _reason(finding: Finding, best: Finding, cause: Finding | None) -> str:
    if cause is not None:
        return f"follows from {cause.verdict}"
    if finding.verdict == BENIGN:
        return "outweighed"
    if finding.confidence is not best.confidence:
        return "less certain"
    return "found beside it, and weighs less"


def _evidence(findings: Sequence[Finding], used: Sequence[Evidence]) -> tuple[Evidence, ...]:
    firsts = [each for finding in findings for each in finding.evidence[:2]]
    rest = [each for finding in findings for each in finding.evidence[2:]]
    shown = list(dict.fromkeys((*firsts, *used, *rest)))[:_SHOWN]
    return tuple(sorted(shown, key=lambda each: (each.source, each.line)))
