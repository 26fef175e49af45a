"""From facts to findings: the path that every check takes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from enginewatch.evidence.verdict import Evidence
from enginewatch.preflight.checks import samples
from enginewatch.preflight.facts import Facts
from enginewatch.preflight.judge import judge, load_preflight, shipped_preflight
from enginewatch.preflight.observe import observed
from enginewatch.preflight.readers.unread import Unread
from enginewatch.rulepack import rules_path


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


@pytest.mark.parametrize(
    ("where", "source", "line"),
    [
        ("deploy.yml:12", "deploy.yml", 12),
        ("a b/launch.sh:3:7", "a b/launch.sh", 3),
        ("--command:2", "--command", 2),
        ("--gpus 8xB200", "--gpus 8xB200", 0),
        ("--url gpu-1:8000", "--url gpu-1:8000", 0),
        ("http://gpu-1:8000", "http://gpu-1:8000", 0),
        ("C:engine", "C:engine", 0),
        ("x:0", "x:0", 0),
    ],
)
def test_a_place_in_a_file_is_told_as_file_and_line(where: str, source: str, line: int) -> None:
    judged = judge(samples(Facts(unread=(Unread(where, "odd"),))), shipped_preflight())
    assert judged.findings[0].evidence == (Evidence(source, line, "odd"),)


def test_two_facts_of_one_place_keep_their_own_evidence() -> None:
    facts = Facts(unread=(Unread("a.yml:1", "one"), Unread("a.yml:1", "two")))
    judged = judge(samples(facts), shipped_preflight())
    assert {finding.evidence[0].text for finding in judged.findings} == {"one", "two"}


def test_a_rule_that_can_not_be_evaluated_refuses_and_hides_nothing(tmp_path: Path) -> None:
    shutil.copytree(rules_path(), tmp_path / "rules")
    (tmp_path / "rules" / "preflight" / "broken.yml").write_text(
        """\
groups:
  - name: preflight-broken
    rules:
      - alert: Broken
        expr: enginewatch_preflight_unread * on (check) enginewatch_preflight_unread > 0
        labels: {code: EW-BROKEN-001, verdict: readiness, severity: warn, confidence: definite}
        annotations: {title: t, summary: s, advice: a, source: x}
"""
    )
    rules = load_preflight(tmp_path / "rules")
    facts = Facts(unread=(Unread("a", "odd", "memory"), Unread("b", "odd", "memory")))
    judged = judge(samples(facts), rules)
    assert [finding.code for finding in judged.findings] == [
        "EW-INPUT-002",
        "EW-INPUT-001",
        "EW-INPUT-001",
    ]
    assert judged.findings[0].fails
    assert "rule Broken could not judge this" in judged.findings[0].summary


@pytest.mark.parametrize(
    ("sample", "passes"),
    [
        (("a", {"kind": "x"}), {"OnX"}),
        (("a", {"kind": "y"}), {"OnRecorded"}),
        (("b", {}), {"Either"}),
        (("c", {}), set()),
    ],
)
def test_a_rule_passes_only_where_what_it_asks_for_is_there(
    tmp_path: Path, sample: tuple[str, dict[str, str]], passes: set[str]
) -> None:
    """By its labels, too: what holds of one kind says nothing of another."""
    exprs = {
        "OnX": 'a{kind="x"} > 5',
        "OnRecorded": "preflight:y:info > 5",
        "Either": 'a{kind="z"} > 5 or b > 5',
        "Both": "c > 5 and b > 5",
    }
    labels = "{verdict: readiness, severity: warn, confidence: definite, code: %s}"
    alerts = "\n".join(
        f"      - {{alert: {name}, expr: '{expr}', labels: {labels % f'EW-{name.upper()}-001'}}}"
        for name, expr in exprs.items()
    )
    shutil.copytree(rules_path() / "signatures", tmp_path / "signatures")
    shutil.copytree(rules_path() / "diagnose", tmp_path / "diagnose")
    (tmp_path / "preflight").mkdir()
    (tmp_path / "preflight" / "one.yml").write_text(
        "groups:\n  - name: one\n    rules:\n"
        f"      - {{record: 'preflight:y:info', expr: 'a{{kind=\"y\"}}'}}\n{alerts}\n"
    )
    name, given = sample
    judged = judge([observed(name, 1, None, **given)], load_preflight(tmp_path))
    assert not judged.findings
    assert {rule.alert.name for rule in judged.passed} == passes
