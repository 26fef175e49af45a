"""Findings that somebody accepts: for a reason, to a day, and never a typing error."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest
from tests.preflight.test_reports import FATAL

from enginewatch.evidence.verdict import Evidence
from enginewatch.preflight.accept import accept, read_accepted
from enginewatch.preflight.errors import PreflightError
from enginewatch.preflight.finding import Finding

CODES = ("EW-ARCH-001", "EW-MEM-003")
ONE = """\
accept:
  - code: EW-ARCH-001
    reason: canary pool only
    until: 2027-01-31
"""


def accepted(text: str, today: date, finding: Finding = FATAL) -> Finding:
    [found] = accept([finding], read_accepted(text, "known.yml", CODES), today)
    return found


def test_an_accepted_finding_fails_nothing_and_stays_to_be_seen() -> None:
    found = accepted(ONE, date(2027, 1, 31))
    assert not found.fails
    assert (found.accepted, found.note) == ("canary pool only", "until 2027-01-31")


def test_an_expired_acceptance_counts_again_and_says_so() -> None:
    found = accepted(ONE, date(2027, 2, 1))
    assert found.fails
    assert "was accepted until 2027-01-31 (canary pool only; known.yml:2:5): expired" in found.note


def test_the_newest_of_several_counts() -> None:
    text = ONE + ONE.partition("\n")[2].replace("2027-01-31", "2028-01-31")
    assert not accepted(text, date(2027, 6, 1)).fails


def test_it_can_be_for_one_place_only() -> None:
    text = ONE + "    where: models/a\n"
    assert not accepted(text, date(2026, 1, 1)).fails
    elsewhere = replace(FATAL, evidence=(Evidence("models/b", 0, ""),))
    assert accepted(text, date(2026, 1, 1), elsewhere).fails


def test_another_code_is_not_covered() -> None:
    other = replace(FATAL, code="EW-MEM-003")
    assert accepted(ONE, date(2026, 1, 1), other) == other


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (ONE.replace("001", "010"), "no finding has the code EW-ARCH-010 (did you mean"),
        (ONE.replace("    reason: canary pool only\n", ""), "acceptance 1 has no 'reason'"),
        (ONE.replace("    until: 2027-01-31\n", ""), "acceptance 1 has no 'until'"),
        (ONE.replace("2027-01-31", "soon"), "'soon' is not a date"),
        (ONE.replace("2027-01-31", "2027-02-30"), "'2027-02-30' is not a date"),
        (ONE.replace("reason", "raison"), "unknown key 'raison' (did you mean 'reason'?)"),
        ("- code: EW-ARCH-001\n", "must be a mapping"),
        ("acept: []\n", "unknown key 'acept'"),
        ("accept: [\n", "known.yml:2:1: not YAML"),
    ],
)
def test_mistakes_are_told_with_their_place(text: str, told: str) -> None:
    with pytest.raises(PreflightError) as failure:
        read_accepted(text, "known.yml", CODES)
    assert told in str(failure.value)
    assert "known.yml:" in str(failure.value)


def test_an_empty_file_accepts_nothing() -> None:
    assert read_accepted("", "known.yml", CODES) == ()
