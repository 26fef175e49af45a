"""Our own evidence, judged whole: `tests/data/evidence/variants-*.yml`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.evidence.knowledge import YEAR, judge, knowledge, read

from enginewatch.alerting.rules import AlertingRule
from enginewatch.evidence.gather import Gathering, Input
from enginewatch.evidence.timeline import judge_timeline

DATA = Path(__file__).parents[1] / "data" / "evidence"


@cache
def variants() -> tuple[dict[str, Any], ...]:
    return tuple(
        case
        for path in sorted(DATA.glob("variants-*.yml"))
        for case in yaml.safe_load(path.read_text())
    )


@pytest.mark.parametrize("case", variants(), ids=lambda case: case["id"])
def test_a_variant_is_judged_as_it_says(case: dict[str, Any]) -> None:
    found = judge(case["text"], case.get("context")).to_json()
    expected = {key: value for key, value in case["expect"].items() if key != "fields"}
    fields = case["expect"].get("fields", {})
    assert {key: found[key] for key in expected} == expected, found["summary"]
    assert {name: found["fields"].get(name) for name in fields} == fields
    assert found["verdict"] not in case.get("must_not", [])
    assert found["notes"] == []


def test_ids_are_given_once() -> None:
    ids = [case["id"] for case in variants()]
    assert len(set(ids)) == len(ids)


def gathered() -> Iterator[Gathering]:
    for case in variants():
        gathering = Gathering(knowledge(), case.get("context") or {}, YEAR)
        gathering.read(Input(case["id"], case["text"].encode().split(b"\n")))
        yield gathering


def test_every_alert_of_the_diagnosis_is_fired_by_a_variant() -> None:
    rules = knowledge().rules
    alerts = {
        rule.name
        for file in rules.diagnose
        for group in file.groups
        for rule in group.rules
        if isinstance(rule, AlertingRule)
    }
    fired = {
        alert.name
        for gathering in gathered()
        for timeline in gathering.timelines()
        for alert, _ in judge_timeline(timeline, rules).alerts
    }
    assert alerts - fired == set()


def test_every_case_of_a_signature_is_reached_by_an_example_or_a_variant() -> None:
    signatures = knowledge().pack.signatures
    reached = {
        id(match.case)
        for gathering in gathered()
        for tally in gathering.seen.tallies.values()
        for match in tally.matches
    }
    for signature in signatures:
        for example in signature.examples:
            reached |= {id(match.case) for match in read(signatures, example.text)}
    missed = [
        f"{signature.id}: case {number}"
        for signature in signatures
        for number, case in enumerate(signature.cases, 1)
        if id(case) not in reached and not signature.mutes
    ]
    assert missed == []
