"""The corpus of launch commands: what people write, and what preflight must make of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from enginewatch.preflight.inputs import Inputs, gather
from enginewatch.preflight.judge import shipped_preflight
from enginewatch.preflight.outcome import Report, required
from enginewatch.preflight.run import preflight

CORPUS = Path(__file__).parent / "corpus"
KEYS = {"name", "source", "files", "given", "expect", "must_not", "fields", "outcome", "require"}


def cases() -> Iterator[Any]:
    for path in sorted(CORPUS.glob("*.yml")):
        for case in yaml.safe_load(path.read_text(encoding="utf-8"))["cases"]:
            yield pytest.param(case, id=f"{path.stem}: {case['name']}")


def run(case: dict[str, Any]) -> Report:
    rules = shipped_preflight()
    given = {
        f"--{name}": tuple(value if isinstance(value, list) else [value])
        for name, value in case["given"].items()
    }
    facts = gather(Inputs(given))
    wanted = required(case.get("require", ()), rules)
    return preflight(facts, rules, date(2026, 1, 1), wanted=wanted)


@pytest.mark.parametrize("case", list(cases()))
def test_case(case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(case) <= KEYS
    assert case["source"]
    monkeypatch.chdir(tmp_path)
    for name, text in case.get("files", {}).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    report = run(case)
    found = {finding.code for finding in report.findings}
    known = shipped_preflight().codes
    named = {*case.get("expect", ()), *case.get("must_not", ()), *case.get("fields", ())}
    assert named - {"fails"} <= known
    assert set(case.get("expect", ())) <= found
    assert not set(case.get("must_not", ())) & found
    if "fails" in case.get("must_not", ()):
        assert not [finding for finding in report.findings if finding.fails]
    for code, fields in case.get("fields", {}).items():
        [finding] = [each for each in report.findings if each.code == code]
        assert {name: finding.fields.get(name) for name in fields} == fields
    if "outcome" in case:
        assert report.outcome.word == case["outcome"]
