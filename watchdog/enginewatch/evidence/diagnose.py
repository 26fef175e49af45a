"""From a pile of evidence to one verdict: a pure function of the inputs and their context."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from enginewatch.evidence.alerts import findings_of_alerts
from enginewatch.evidence.documents import shipped_kinds
from enginewatch.evidence.gather import Gathering, Input, Knowledge
from enginewatch.evidence.incident import findings_of
from enginewatch.evidence.judge import judge
from enginewatch.evidence.pack import shipped_pack
from enginewatch.evidence.timeline import judge_timeline, shipped_rules
from enginewatch.evidence.verdict import Verdict


def shipped_knowledge() -> Knowledge:
    """What came with the program: signatures, verdicts, kinds of documents, rules."""
    return Knowledge(shipped_pack(), shipped_kinds(), shipped_rules())


def diagnose(
    inputs: Iterable[Input],
    context: Mapping[str, Any] | None = None,
    *,
    knowledge: Knowledge | None = None,
    year: int = 2000,
    notes: Sequence[str] = (),
) -> Verdict:
    """The verdict on all inputs together, taken as the traces of one incident.

    `context` is what the user knows beside them (`target_compute_capability`,
    `visible_gpus`, `probe`, `previous_scrape` …). `year` completes dates without one.
    """
    known = knowledge or shipped_knowledge()
    gathering = Gathering(known, context or {}, year)
    for one in inputs:
        gathering.read(one)
    verdicts = known.pack.verdicts
    findings = [*findings_of(gathering.seen)]
    for timeline in gathering.timelines():
        judgement = judge_timeline(timeline, known.rules)
        findings += findings_of_alerts(judgement, timeline, verdicts)
        gathering.notes.extend(judgement.failures)
    return judge(findings, gathering.seen, gathering.facts, verdicts, [*notes, *gathering.notes])
