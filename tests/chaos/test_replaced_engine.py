"""A replaced engine: other files, a second engine's refusal as evidence, and the old ones again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from enginechaos.errors import TargetError
from enginechaos.faults import ReplacedEngine
from enginechaos.sim import engine_dir
from enginechaos.sim.engine_dir import Build
from enginechaos.target import Target

TENSORRT = "10.6.0.26"
HOPPER, BLACKWELL = Build.of("9.0", TENSORRT), Build.of("10.0", TENSORRT)
SETTINGS = {"dialect": "trtllm", "tensorrt": TENSORRT, "capability": [9, 0]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    engine_dir.write(tmp_path / "engine", HOPPER, ranks=1)
    return tmp_path / "engine"


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target(
        name="a target",
        deployment="chat",
        tier="sim",
        url="http://127.0.0.1:9",
        metrics_url="http://127.0.0.1:9/metrics",
        model="m",
        table=list,
        backups=tmp_path / "backups",
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.integration
def test_a_second_engine_refuses_the_files_and_the_undo_brings_the_old_ones_back(
    folder: Path, target: Target
) -> None:
    before = contents(folder)
    fault = ReplacedEngine(folder, BLACKWELL, settings=SETTINGS)
    (undo,) = fault.undo(target)
    assert not fault.verify(target).found, "nothing was done yet"
    fault.inject(target)
    assert contents(folder) != before
    found = fault.verify(target)
    assert found.found, found.what
    assert "expecting compute 9.0 got compute 10.0" in found.what
    for _ in range(2):
        undo.do()
        assert contents(folder) == before
    assert not fault.verify(target).found


def test_other_files_that_an_engine_would_load_are_no_evidence(
    folder: Path, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = ReplacedEngine(folder, HOPPER, settings=SETTINGS)
    fault.undo(target)
    (folder / "README").write_text("a file that was not there")
    monkeypatch.setattr(fault, "_second_start", lambda: None)
    assert not fault.verify(target).found
    monkeypatch.setattr(fault, "_second_start", lambda: "no port is free")
    assert not fault.verify(target).found, "it ended for another reason"


def test_files_of_an_engine_that_is_no_simulation_are_left_alone(
    folder: Path, target: Target
) -> None:
    with pytest.raises(TargetError, match="is no simulation"):
        ReplacedEngine(folder, BLACKWELL).undo(replace(target, tier="staging"))


def test_a_folder_that_is_not_there_is_named(tmp_path: Path, target: Target) -> None:
    with pytest.raises(TargetError, match="can't be read"):
        ReplacedEngine(tmp_path / "none", BLACKWELL).undo(target)
