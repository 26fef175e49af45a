"""The shipped rules are found, and their runbooks by alert or verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from enginewatch import rulepack


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    for name in (
        "engines/vllm.yml",
        "engines/sglang.yml",
        "engines/vllm.test.yml",
        "hazards/stuck_engine.yml",
        "hazards/stuck_engine.test.yml",
        "compat/xids.yml",
        "runbooks/stuck_engine.md",
        "runbooks/EngineDead.md",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def test_the_checkout_has_rules() -> None:
    assert (rulepack.rules_path() / "hazards").is_dir()


def test_rule_files_are_those_that_hold_rules_engines_first(pack: Path) -> None:
    found = [str(path.relative_to(pack)) for path in rulepack.rule_files(pack)]
    assert found == ["engines/sglang.yml", "engines/vllm.yml", "hazards/stuck_engine.yml"]


@pytest.mark.parametrize(
    ("alert", "verdict", "name"),
    [
        ("EngineDead", "", "EngineDead.md"),
        ("StuckEngine", "", "stuck_engine.md"),
        ("TokensStopped", "stuck_engine", "stuck_engine.md"),
        ("Other", "other", None),
        ("../runbooks/stuck_engine", "", None),
        ("", "", None),
    ],
)
def test_runbooks(pack: Path, alert: str, verdict: str, name: str | None) -> None:
    assert rulepack.runbook(alert, verdict, pack) == (pack / "runbooks" / name if name else None)
