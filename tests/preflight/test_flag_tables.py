"""The tables of flags: each name once, and a remedy that is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from enginewatch.evidence.tables import load_table
from enginewatch.preflight.pins import numbers
from enginewatch.preflight.readers.flags import flag_table
from enginewatch.rulepack import rules_path

TABLES = sorted(path.stem for path in (rules_path() / "compat" / "flags").glob("*.yml"))


def rows(name: str) -> dict[str, dict[str, object]]:
    path = rules_path() / "compat" / "flags" / f"{name}.yml"
    return {key: dict(row) for key, row in load_table(path).rows.items()}


@pytest.mark.parametrize("name", TABLES)
def test_a_name_means_one_flag(name: str) -> None:
    seen: dict[str, str] = {}
    for flag, row in rows(name).items():
        for each in (flag, *str(row.get("alias", "")).split()):
            assert seen.setdefault(each, flag) == flag, each


@pytest.mark.parametrize("name", TABLES)
def test_what_to_write_instead_is_there(name: str) -> None:
    table = flag_table(name)
    for flag in table.by_name.values():
        first = flag.gone.split()[0] if flag.gone else ""
        if first.startswith("--no-"):
            first = f"--{first[5:]}"
        if first.startswith("--"):
            assert first in table.by_name, f"{flag.name}: {flag.gone}"
            assert not table.by_name[first].removed, f"{flag.name}: {flag.gone}"
        assert not flag.gone or flag.removed or flag.name == "--disable-cuda-graph", flag.name


@pytest.mark.parametrize("name", TABLES)
def test_versions_are_in_order(name: str) -> None:
    for flag in flag_table(name).by_name.values():
        if flag.since and flag.removed:
            assert numbers(flag.since) < numbers(flag.removed), flag.name


@pytest.mark.parametrize("name", TABLES)
def test_defaults_are_of_their_type(name: str) -> None:
    for row in load_table(rules_path() / "compat" / "flags" / f"{name}.yml").rows.values():
        if row.get("default") and row.get("type") in {"int", "float"}:
            assert float(str(row["default"])) >= 0, row["name"]


def test_every_launcher_of_the_table_has_its_flags() -> None:
    launchers = load_table(Path(rules_path()) / "compat" / "launchers.yml").rows.values()
    assert {str(row["flags"]) for row in launchers} <= set(TABLES)
