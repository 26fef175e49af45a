"""Golden tasks that a running candidate answered: no language at all, and probabilities that fell.

Pass rates are an evaluation's, and judged with those (`enginewatch.preflight.quality`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from enginewatch.canary.look import Look
from enginewatch.evidence.verdict import Evidence
from enginewatch.preflight.facts import Facts
from enginewatch.preflight.observe import Observed, observed

_PREFIX: Final = "enginewatch_preflight_canary_"


def samples(facts: Facts) -> Iterator[Observed]:
    """`enginewatch_preflight_canary_…`: `answers`, `unanswered`, `unscored`, `degenerate_answers`,
    all together and by `kind`; by family `logprob_shift_nats` (positive is worse) and
    `logprob_shift_low_nats`, its lower bound of 99% confidence."""
    for look in facts.canaries:
        yield from _samples(look)


def _samples(look: Look) -> Iterator[Observed]:
    total = look.answers + look.unanswered
    told = Evidence(look.source, 0, f"{look.answers} of {total} tasks answered")
    missing = Evidence(look.source, 0, f"{look.unanswered} of {total}: {look.problem}")
    yield observed(f"{_PREFIX}answers", look.answers, told)
    yield observed(f"{_PREFIX}unanswered", look.unanswered, missing if look.unanswered else told)
    yield observed(f"{_PREFIX}unscored", look.unscored, told)
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted((look.faults or {}).items()))
    broken = Evidence(look.source, 0, f"{look.degenerate} of {look.answers} answers: {kinds}")
    evidence = broken if look.degenerate else told
    yield observed(f"{_PREFIX}degenerate_answers", look.degenerate, evidence)
    for family, shift in sorted((look.shifts or {}).items()):
        text = f"{family}: right answers lost {shift.mean:.3g} nats on {shift.tasks} tasks"
        place = Evidence(look.source, 0, text)
        yield observed(f"{_PREFIX}logprob_shift_nats", shift.mean, place, family=family)
        yield observed(f"{_PREFIX}logprob_shift_low_nats", shift.low, place, family=family)
