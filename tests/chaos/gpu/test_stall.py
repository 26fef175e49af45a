"""What the command line makes of a number of GPUs and a backend."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from chaos.gpu.group import Plan
from chaos.gpu.stall import arguments, runs


def names(given: list[str], tmp_path: Path) -> list[str]:
    return [run.name for _, run in runs(arguments(given), tmp_path)]


def test_two_ranks_on_processors_are_stopped_killed_and_delayed(tmp_path: Path) -> None:
    given = arguments(["--backend", "gloo"])
    assert (given.ranks, given.gpus) == (2, 0)
    assert names(["--backend", "gloo"], tmp_path) == ["stop", "kill", "delay"]


def test_nccl_repeats_a_hang_with_its_own_instruments(tmp_path: Path) -> None:
    assert names(["--backend", "nccl", "--gpus", "4"], tmp_path) == [
        "stop",
        "stop-monitored",
        "kill",
        "delay",
        "hold",
        "hold-monitored",
    ]


def test_a_single_rank_has_no_peers_to_wait_for_it(tmp_path: Path) -> None:
    given = ["--backend", "nccl", "--gpus", "1"]
    assert names(given, tmp_path) == ["hold", "hold-monitored"]
    assert names([*given, "--cases", "hold"], tmp_path) == ["hold", "hold-monitored"]


def test_flight_recordings_go_into_the_folder_of_their_run(tmp_path: Path) -> None:
    given = arguments(["--backend", "nccl", "--gpus", "1"])
    _, monitored = list(runs(given, tmp_path))[1]
    assert monitored.plan.environment["TORCH_FR_DUMP_TEMP_FILE"] == str(
        tmp_path / "hold-monitored" / "flight_"
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--backend", "nccl"], "NCCL needs a GPU"),
        (["--backend", "gloo", "--timeout", "20"], "a delay of 20 s needs a --timeout"),
    ],
)
def test_what_can_not_work_is_refused(
    given: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        arguments(given)
    assert said in capsys.readouterr().err


def test_ranks_that_share_a_gpu_are_hosts_of_their_own_to_nccl() -> None:
    alone = Plan("python", "nccl", 2, 2, 30.0, environment={"A": "1"})
    assert alone.environment_of(1) == {"A": "1"}
    shared = [replace(alone, gpus=1).environment_of(rank) for rank in (0, 1)]
    assert shared[0]["NCCL_HOSTID"] != shared[1]["NCCL_HOSTID"]
    assert all(each["A"] == "1" for each in shared)
    assert "NCCL_HOSTID" not in replace(alone, gpus=1, backend="gloo").environment_of(1)
