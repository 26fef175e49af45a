"""What golden tasks show beside right and wrong, as findings."""

from __future__ import annotations

from datetime import date

import pytest

from enginewatch.canary.look import Look, Shift
from enginewatch.preflight.facts import Facts
from enginewatch.preflight.judge import shipped_preflight
from enginewatch.preflight.run import preflight


@pytest.mark.parametrize(
    ("look", "expected", "outcome"),
    [
        (Look("chat", 60), set(), "pass"),
        (Look("chat", 60, degenerate=1, faults={"empty": 1}), set(), "pass"),
        (Look("chat", 60, degenerate=2, faults={"repeats": 2}), {"EW-CANARY-001"}, "fail"),
        (Look("chat", 60, shifts={"overall": Shift(0.2, 0.1, 60)}), {"EW-CANARY-002"}, "pass"),
        (Look("chat", 60, shifts={"overall": Shift(0.2, 0.0, 60)}), set(), "pass"),
        (Look("chat", 59, unanswered=1, problem="HTTP 500"), {"EW-CANARY-003"}, "undetermined"),
        (Look("chat", 60, unscored=3), {"EW-CANARY-004"}, "pass"),
    ],
)
def test_what_golden_tasks_show(look: Look, expected: set[str], outcome: str) -> None:
    found = preflight(
        Facts(canaries=(look,)), shipped_preflight(), date(2026, 1, 1), wanted=["canary"]
    )
    assert {finding.code for finding in found.findings} == expected
    assert found.outcome.word == outcome
