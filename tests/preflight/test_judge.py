"""From facts to findings: the path that every check takes."""

from __future__ import annotations

from enginewatch.evidence.verdict import Evidence
from enginewatch.preflight.checks import samples
from enginewatch.preflight.facts import Facts
from enginewatch.preflight.judge import judge, shipped_preflight
from enginewatch.preflight.readers.unread import Unread


def test_an_input_that_could_not_be_read_is_a_finding() -> None:
    facts = Facts(unread=(Unread("rank0.engine", "it ends after 12 bytes", "architecture"),))
    judged = judge(samples(facts), shipped_preflight())
    [finding] = judged.findings
    assert (finding.code, finding.check, finding.unknown) == ("EW-INPUT-001", "inputs", True)
    assert finding.fields == {
        "input": "rank0.engine",
        "what": "it ends after 12 bytes",
        "check": "architecture",
    }
    assert finding.evidence == (Evidence("rank0.engine", 0, "it ends after 12 bytes"),)
    assert not finding.fails


def test_nothing_given_is_nothing_judged() -> None:
    judged = judge(samples(Facts()), shipped_preflight())
    assert not judged.findings
    assert not judged.passed
    assert {rule.code for rule in judged.silent} >= {"EW-INPUT-001"}
