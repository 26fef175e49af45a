"""What every rule of preflight must carry, and that each is seen to fire."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from enginewatch.alerting.rules import AlertingRule, RecordingRule
from enginewatch.evidence.signatures import Confidence, Severity
from enginewatch.preflight.judge import shipped_preflight
from enginewatch.promql.ast import VectorSelector

HERE = Path(__file__).parent
SOURCES = HERE.parents[1] / "watchdog" / "enginewatch" / "preflight"
LABELS = {"code", "verdict", "severity", "confidence"}
NOTES = {"title", "summary", "advice", "source"}
CODE = re.compile(r"EW-[A-Z]+-\d{3}")


def alerts() -> Iterator[AlertingRule]:
    """Those of rules/preflight, and those that `diagnose` shares with it."""
    return (rule.alert for rule in shipped_preflight().rules.values())


def where(rule: AlertingRule) -> str:
    return f"{Path(rule.file).name}:{rule.line} {rule.name}"


def test_every_alert_of_the_folder_has_a_code() -> None:
    for file in shipped_preflight().files:
        if Path(file.path).parent.name == "preflight":
            for group in file.groups:
                for rule in group.rules:
                    assert isinstance(rule, RecordingRule) or rule.label("code"), rule.name


def test_codes_and_names_are_unique() -> None:
    found = list(shipped_preflight().rules.values())
    assert not [c for c, n in Counter(rule.code for rule in found).items() if n > 1]
    names = [
        rule.name
        for file in shipped_preflight().files
        for group in file.groups
        for rule in group.rules
        if isinstance(rule, AlertingRule)
    ]
    assert not [name for name, count in Counter(names).items() if count > 1]
    groups = [group.name for file in shipped_preflight().files for group in file.groups]
    assert len(set(groups)) == len(groups)


def test_an_alert_says_all_that_a_finding_tells() -> None:
    for rule in alerts():
        assert LABELS <= set(rule.labels) <= LABELS | {"unknown"}, where(rule)
        assert set(rule.annotations) >= NOTES, f"{where(rule)}: {NOTES - set(rule.annotations)}"
        assert CODE.fullmatch(rule.label("code")), where(rule)
        assert rule.label("verdict") in shipped_preflight().verdicts, where(rule)
        assert rule.label("severity") in {*Severity}, where(rule)
        assert rule.label("confidence") in {*Confidence}, where(rule)
        assert rule.label("unknown") in {"", "yes"}, where(rule)
        title = rule.annotations["title"].text
        assert "{{" not in title, f"{where(rule)}: a title is told when nothing was found"
        assert not title.endswith("."), where(rule)
        assert not rule.for_, f"{where(rule)}: judged once, so `for` never ends"


def test_a_check_has_codes_of_its_own() -> None:
    """So that a code tells where to look, and `--require` what it is about."""
    families: dict[str, set[str]] = {}
    for rule in shipped_preflight().rules.values():
        families.setdefault(rule.code.split("-")[1], set()).add(rule.check)
    assert not {family: checks for family, checks in families.items() if len(checks) > 1}


def test_what_a_rule_judges_is_a_series_that_is_written() -> None:
    """By any check, on some input of the tests: a typing error would make it silent for ever."""
    sources = [path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py")]
    for rule in shipped_preflight().rules.values():
        if rule.judges:
            assert any(f'"{rule.judges}"' in text for text in sources), rule.code


def test_names_are_written_out() -> None:
    for file in shipped_preflight().files:
        for group in file.groups:
            for rule in group.rules:
                for node in rule.expr.walk():
                    if isinstance(node, VectorSelector):
                        assert node.name, f"{file.path}: {rule.name}"


def test_every_code_is_expected_by_some_test() -> None:
    texts = [path.read_text(encoding="utf-8") for path in HERE.parent.rglob("*.py")]
    texts += [path.read_text(encoding="utf-8") for path in (HERE / "corpus").glob("*.yml")]
    named = {code for text in texts for code in CODE.findall(text)}
    assert not sorted(shipped_preflight().codes - named)


def test_no_text_is_cut_off_by_a_comment() -> None:
    """`source: TensorRT#1, #2` without quotes ends at the comma."""
    cut = re.compile(r"^\s+\w+: [^'\"|>&{\[\s#].* #\S", re.MULTILINE)
    for file in shipped_preflight().files:
        text = Path(file.path).read_text(encoding="utf-8")
        assert not cut.findall(text), file.path
