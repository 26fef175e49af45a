"""A report's configuration digest: equal for equal conditions, wherever the run was."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from enginechaos import stage
from enginechaos.embedded import EmbeddedEngine
from enginechaos.run import Run

SETTINGS: Mapping[str, Any] = {
    "dialect": "triton",
    "ranks": {"link": "tcp", "collectives": 3, "launch": (("left",), ("right",))},
}


def digest(folder: Path, seed: int = 0, **settings: Any) -> str:
    """Of a test at a simulated engine that a run of its own would start."""
    run = Run(folder, seed=seed, dry_run=True)
    with stage.engines(run, "m") as start:
        return run.digest(stage.target_of(run, start, "e", {**SETTINGS, **settings}).name)


def test_where_a_run_is_makes_no_difference(tmp_path: Path) -> None:
    first = digest(tmp_path / "a", port=1001, engine_dir=str(tmp_path / "a" / "engine"))
    again = digest(
        tmp_path / "b",
        port=2002,
        metrics_port=2004,
        engine_dir=str(tmp_path / "b" / "engine"),
        ranks={
            "link": "tcp",
            "collectives": 3,
            "launch": (("there",),),
            "listen": "127.0.0.1:7",
            "through": "127.0.0.1:8",
        },
    )
    assert first == again


@pytest.mark.parametrize(
    "other",
    [
        {"max_num_seqs": 8},
        {"memory": {"weights_gib": 1.0}},
        {"ranks": {"link": "tcp", "collectives": 4}},
        {"seed": 5},
    ],
    ids=str,
)
def test_what_decides_behaviour_makes_another(tmp_path: Path, other: dict[str, Any]) -> None:
    assert digest(tmp_path) != digest(tmp_path, **other)


def test_a_default_that_is_written_out_is_the_same_setting(tmp_path: Path) -> None:
    engine = EmbeddedEngine(tmp_path, "e", {})
    assert digest(tmp_path) == digest(tmp_path, tensor_parallel=engine.settings["tensor_parallel"])
