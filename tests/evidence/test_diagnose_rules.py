"""The rules of diagnosis are rule files like any other, and speak of what exists."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from tests.evidence.knowledge import knowledge

from enginewatch.alerting.rules import AlertingRule, RecordingRule
from enginewatch.evidence.pack import shipped_pack
from enginewatch.evidence.signatures import Confidence, Severity
from enginewatch.evidence.timeline import FIELD_METRIC, diagnose_files
from enginewatch.rulepack import rules_path

RULES = [
    rule for file in knowledge().rules.diagnose for group in file.groups for rule in group.rules
]
ALERTS = {rule.name: rule for rule in RULES if isinstance(rule, AlertingRule)}
LISTS = ("rules_out", "explains", "explained_by")


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_accepts_them() -> None:
    files = [str(path) for path in diagnose_files(rules_path())]
    done = subprocess.run(
        ["promtool", "check", "rules", *files], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("rule", ALERTS.values(), ids=lambda rule: rule.name)
def test_an_alert_says_what_it_claims(rule: AlertingRule) -> None:
    pack = shipped_pack()
    known = {*pack.verdicts, *pack.signatures.by_id}
    assert rule.label("verdict") in pack.verdicts
    assert Severity(rule.label("severity"))
    assert Confidence(rule.label("confidence"))
    assert rule.annotations["summary"].text
    assert rule.for_ == 0
    for name in LISTS:
        if name in rule.annotations:
            assert set(rule.annotations[name].text.split()) <= known
    own = set(rule.annotations) - {"title", "summary", "advice", "source", "fields", *LISTS}
    assert all(name.startswith("derived_") for name in own)


def test_fields_are_of_alerts_that_exist() -> None:
    for rule in RULES:
        if isinstance(rule, RecordingRule) and rule.name == FIELD_METRIC:
            assert rule.labels["of"] in ALERTS
            assert rule.labels["as"] in ("int", "number", "bool")
            assert rule.labels.get("derived") in (None, "yes")
            assert rule.labels["field"]


def test_alerts_are_named_once() -> None:
    names = [rule.name for rule in RULES if isinstance(rule, AlertingRule)]
    assert len(set(names)) == len(names)
