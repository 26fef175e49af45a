"""Facts in, report out: the whole of preflight without any I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from enginewatch import __version__
from enginewatch.preflight.accept import Acceptance, accept
from enginewatch.preflight.checks import samples, sheets
from enginewatch.preflight.facts import Facts
from enginewatch.preflight.judge import PreflightRules, judge
from enginewatch.preflight.outcome import Report, undetermined


def preflight(
    facts: Facts,
    rules: PreflightRules,
    today: date,
    *,
    wanted: Sequence[str] = (),
    accepted: Sequence[Acceptance] = (),
    inputs: Sequence[str] = (),
) -> Report:
    """Judge the facts. `wanted` are checks that must be determined."""
    judged = judge(samples(facts), rules)
    judged = replace(judged, findings=tuple(accept(judged.findings, accepted, today)))
    return Report(
        findings=judged.findings,
        passed=judged.passed,
        silent=judged.silent,
        sheets=tuple(sheets(facts)),
        inputs=tuple(inputs),
        missing=tuple(undetermined(judged, wanted)),
        version=__version__,
    )
