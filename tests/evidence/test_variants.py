"""Our own evidence, judged whole: `tests/data/evidence/variants-*.yml`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.evidence.knowledge import judge

DATA = Path(__file__).parents[1] / "data" / "evidence"


def variants() -> Iterator[Any]:
    for path in sorted(DATA.glob("variants-*.yml")):
        for case in yaml.safe_load(path.read_text()):
            yield pytest.param(case, id=case["id"])


@pytest.mark.parametrize("case", [*variants()])
def test_a_variant_is_judged_as_it_says(case: dict[str, Any]) -> None:
    found = judge(case["text"], case.get("context")).to_json()
    expected = case["expect"]
    fields = expected.pop("fields", {})
    assert {key: found[key] for key in expected} == expected, found["summary"]
    assert {name: found["fields"].get(name) for name in fields} == fields
    assert found["verdict"] not in case.get("must_not", [])
    assert found["notes"] == []


def test_ids_are_given_once() -> None:
    ids = [str(param.id) for param in variants()]
    assert len(set(ids)) == len(ids) > 100
