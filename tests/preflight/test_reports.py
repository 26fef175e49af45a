"""The forms of a report, as the programs that read them check them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import date
from typing import Any
from xml.etree import ElementTree as Xml

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginewatch.evidence.signatures import Confidence, Severity
from enginewatch.evidence.verdict import Evidence
from enginewatch.preflight.facts import Facts
from enginewatch.preflight.finding import Finding
from enginewatch.preflight.judge import shipped_preflight
from enginewatch.preflight.outcome import Outcome, Report
from enginewatch.preflight.report import FORMATS
from enginewatch.preflight.run import preflight
from enginewatch.preflight.sheet import Line, Sheet

FATAL = Finding(
    code="EW-ARCH-001",
    check="architecture",
    title="the engine was built for this GPU",
    verdict="engine_mismatch",
    severity=Severity.FATAL,
    confidence=Confidence.DEFINITE,
    summary="the engine was built for compute capability 9.0; these GPUs have 10.0",
    advice="Rebuild it on the GPU that serves.",
    source="TensorRT's own error, code 6",
    fields={"built_for": "9.0", "gpus": 4, "share": 0.5, "known": True, "missing": None},
    evidence=(Evidence("models/a b/rank0.engine", 0, "built on sm_90"), Evidence("x.yml", 7, "g")),
)
WARN = replace(FATAL, code="EW-MEM-003", check="memory", severity=Severity.WARN, fields={})
UNKNOWN = replace(WARN, code="EW-VER-004", check="versions", unknown=True)
FLAG = replace(WARN, evidence=(Evidence("--command", 1, "vllm serve x --tp 4"),))
ACCEPTED = replace(FATAL, accepted="the rebuild is scheduled", note="until 2027-01-31")


def report(*findings: Finding, **more: Any) -> Report:
    rules = tuple(shipped_preflight().rules.values())
    return Report(
        findings=findings,
        passed=rules[:3],
        silent=rules[3:],
        sheets=(Sheet("Memory", (Line("weights", 3 * 2**30, "16 bits"),), Line("GPU", 2**31)),),
        inputs=("--engine-dir models",),
        version="1.2.3",
        **more,
    )


@pytest.mark.parametrize(
    ("findings", "missing", "outcome"),
    [
        ((), (), Outcome.PASS),
        ((WARN, UNKNOWN), (), Outcome.PASS),
        ((FATAL,), (), Outcome.FAIL),
        ((replace(FATAL, severity=Severity.DEGRADED),), (), Outcome.FAIL),
        ((ACCEPTED,), (), Outcome.PASS),
        ((replace(FATAL, unknown=True),), (), Outcome.PASS),
        ((UNKNOWN,), (("versions", "no freeze"),), Outcome.UNDETERMINED),
        # What is certain counts, whatever else is not known.
        ((FATAL, UNKNOWN), (("versions", "no freeze"),), Outcome.FAIL),
    ],
)
def test_exit_codes(
    findings: tuple[Finding, ...], missing: tuple[tuple[str, str], ...], outcome: Outcome
) -> None:
    assert report(*findings, missing=missing).outcome is outcome


def test_the_table_says_what_where_and_next() -> None:
    text = FORMATS["table"](report(FATAL, WARN, UNKNOWN, ACCEPTED, missing=(("quality", "none"),)))
    lines = text.splitlines()
    assert lines[0].startswith("FATAL     EW-ARCH-001  The engine was built")
    assert "at models/a b/rank0.engine: built on sm_90" in text
    assert "at x.yml:7: g" in text
    assert "next: Rebuild it on the GPU that serves." in text
    assert "built_for 9.0, gpus 4, share 0.5, known yes" in text
    assert "accepted until 2027-01-31: the rebuild is scheduled" in text
    assert re.search(r"weights +3\.00 GiB +16 bits", text)
    assert re.search(r"sum +3\.00 GiB", text)
    assert "Required and not determined: quality: none" in text
    assert lines[-1] == "Preflight refused: 1 of 4 findings fail the rollout (exit 1)"
    assert max(map(len, lines)) <= 110


def test_the_table_says_once_what_holds_of_several_places() -> None:
    ranks = [
        replace(FATAL, fields={"engine": n, "gpu": "B200"}, evidence=(Evidence(f"r{n}", 0, "x"),))
        for n in range(6)
    ]
    text = FORMATS["table"](report(*ranks))
    assert text.count("EW-ARCH-001") == 1
    assert "at r3: x" in text
    assert "and at 2 more places" in text
    assert " gpu B200\n" in text
    assert "6 of 6 findings" in text
    assert len(json.loads(FORMATS["json"](report(*ranks)))["findings"]) == 6


def test_json_is_the_verdict_object_of_the_design() -> None:
    found = json.loads(FORMATS["json"](report(FATAL)))
    assert (found["outcome"], found["exit_code"]) == ("fail", 1)
    [finding] = found["findings"]
    assert {"verdict", "severity", "confidence", "fields", "evidence", "advice"} <= finding.keys()
    assert finding["evidence"][1] == {"source": "x.yml", "line": 7, "text": "g"}
    assert found["sheets"][0]["total"] == 3 * 2**30


def test_junit_counts_what_it_lists() -> None:
    root = Xml.fromstring(FORMATS["junit"](report(FATAL, WARN, UNKNOWN)))
    assert root.tag == "testsuites"
    for suite in root:
        cases = suite.findall("testcase")
        assert int(suite.attrib["tests"]) == len(cases)
        for kind, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            assert int(suite.attrib[name]) == len([c for c in cases if c.find(kind) is not None])
    for name in ("tests", "failures", "errors", "skipped"):
        assert int(root.attrib[name]) == sum(int(suite.attrib[name]) for suite in root)
    assert root.attrib["failures"] == "1"
    assert root.attrib["skipped"] == "1"
    failure = root.find(".//failure")
    assert failure is not None
    assert failure.attrib["type"] == "engine_mismatch"
    assert "x.yml:7: g" in (failure.text or "")


def test_junit_makes_an_error_of_a_required_check() -> None:
    told = report(UNKNOWN, missing=(("versions", "no freeze"), ("quality", "no evaluation")))
    root = Xml.fromstring(FORMATS["junit"](told))
    errors = {suite.attrib["name"]: suite.attrib["errors"] for suite in root}
    assert errors["preflight.versions"] == "1"
    assert errors["preflight.quality"] == "1"
    assert root.attrib["failures"] == "0"


# What of sarif-schema-2.1.0.json a log of ours can break: required keys, closed vocabularies,
# types and bounds.
LEVELS = {"none", "note", "warning", "error"}
KINDS = {"notApplicable", "pass", "fail", "review", "open", "informational"}


def check_sarif(log: dict[str, Any]) -> None:
    assert log["version"] == "2.1.0"
    assert set(log) <= {"$schema", "version", "runs", "inlineExternalProperties", "properties"}
    for run in log["runs"]:
        driver = run["tool"]["driver"]
        assert driver["name"]
        assert re.fullmatch(r"\d+\.\d+\.\d+.*", driver["semanticVersion"])
        ids = [rule["id"] for rule in driver["rules"]]
        assert len(set(ids)) == len(ids)
        for rule in driver["rules"]:
            assert rule["shortDescription"]["text"]
            assert rule["help"]["text"]
            assert rule["defaultConfiguration"]["level"] in LEVELS
        for invocation in run["invocations"]:
            assert isinstance(invocation["executionSuccessful"], bool)
        for result in run["results"]:
            check_result(result, ids)


def check_result(result: dict[str, Any], ids: list[str]) -> None:
    assert result["message"]["text"]
    assert ids[result["ruleIndex"]] == result["ruleId"]
    assert result["level"] in LEVELS
    assert result["kind"] in KINDS
    # 3.27.10: a kind other than fail goes with the level none.
    assert (result["kind"] == "fail") or result["level"] == "none"
    for location in result["locations"]:
        assert location["message"]["text"]
        assert ("physicalLocation" in location) != ("logicalLocations" in location)
        physical = location.get("physicalLocation")
        if physical is not None:
            uri = physical["artifactLocation"]["uri"]
            assert re.fullmatch(r"[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]+", uri)
            assert physical.get("region", {"startLine": 1})["startLine"] >= 1
    for suppression in result.get("suppressions", ()):
        assert suppression["kind"] in {"inSource", "external"}
        assert suppression["status"] in {"accepted", "underReview", "rejected"}
    assert all(isinstance(each, str) for each in result["partialFingerprints"].values())


def test_sarif_is_valid_and_says_where() -> None:
    log = json.loads(FORMATS["sarif"](report(FATAL, WARN, UNKNOWN, FLAG, ACCEPTED)))
    check_sarif(log)
    results = log["runs"][0]["results"]
    first = results[0]["locations"][0]["physicalLocation"]
    assert first["artifactLocation"]["uri"] == "models/a%20b/rank0.engine"
    assert results[0]["locations"][1]["physicalLocation"]["region"] == {"startLine": 7}
    assert results[3]["locations"][0]["logicalLocations"][0]["kind"] == "parameter"
    assert results[4]["suppressions"][0]["justification"] == "the rebuild is scheduled"


def test_sarif_tells_one_finding_from_another_over_runs() -> None:
    def prints(*findings: Finding) -> list[str]:
        log = json.loads(FORMATS["sarif"](report(*findings)))
        return [r["partialFingerprints"]["enginewatch/v1"] for r in log["runs"][0]["results"]]

    assert prints(FATAL) == prints(FATAL)
    assert prints(FATAL) != prints(replace(FATAL, summary="another"))


def test_github_annotations() -> None:
    lines = FORMATS["github"](report(FATAL, WARN, UNKNOWN, FLAG, ACCEPTED)).splitlines()
    title = "title=EW-ARCH-001 engine_mismatch (fatal)"
    assert lines[0].startswith(f"::error file=models/a b/rank0.engine,{title}::The engine was")
    assert [line.partition(" ")[0] for line in lines[:5]] == [
        "::error",
        "::warning",
        "::warning",
        "::warning",
        "::notice",
    ]
    assert "file=" not in lines[3]


def test_github_commands_can_not_be_forged() -> None:
    """A text from a file must not end the command and begin another."""
    hostile = "a\n::error::b\r%0A"
    evil = replace(
        FATAL, summary=hostile, evidence=(Evidence("a,line=1::x\nb", 3, hostile),), advice=hostile
    )
    text = FORMATS["github"](report(evil))
    command, last = text.split("\n")
    assert command.startswith("::error file=a%2Cline=1%3A%3Ax%0Ab,line=3,title=")
    assert "\r" not in text
    assert "%250A" in command
    assert last.startswith("Preflight refused")


TEXT = st.text(max_size=40)


@given(summary=TEXT, source=TEXT, advice=TEXT, line=st.integers(0, 3))
@settings(deadline=None, max_examples=60)
def test_no_text_breaks_a_form(summary: str, source: str, advice: str, line: int) -> None:
    odd = replace(
        FATAL, summary=summary, advice=advice, evidence=(Evidence(source or "x", line, summary),)
    )
    told = report(odd, missing=(("quality", "none"),))
    json.loads(FORMATS["json"](told))
    Xml.fromstring(FORMATS["junit"](told).encode("utf-8", "replace"))
    github = FORMATS["github"](told)
    assert len(re.split(r"[\r\n]", github)) == 3
    log = json.loads(FORMATS["sarif"](told))
    assert log["runs"][0]["results"][0]["message"]["text"]
    table = FORMATS["table"](told)
    assert all(char.isprintable() or char == "\n" for char in table)


def test_nothing_to_judge_says_so() -> None:
    told = preflight(Facts(), shipped_preflight(), date(2026, 1, 1))
    assert told.outcome is Outcome.UNDETERMINED
    assert "Preflight judged nothing" in FORMATS["table"](told)
