"""A command alone is enough where what it serves lies on this host."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.preflight.test_engine_dir import write_engine, write_model
from tests.preflight.weights import write_checkpoint

from enginewatch.preflight.facts import Facts
from enginewatch.preflight.inputs import Inputs, gather


def facts(command: str, **more: str) -> Facts:
    given = {"--command": (command,), "--gpus": ("8xH100",)}
    return gather(Inputs(given | {f"--{name}": (value,) for name, value in more.items()}))


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    write_checkpoint(tmp_path / "ckpt", {"m.safetensors": {"a": ("BF16", (4, 4))}})
    return tmp_path / "ckpt"


def test_checkpoints_of_model_and_draft(checkpoint: Path, tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "draft", {"m.safetensors": {"a": ("BF16", (2, 2))}})
    speculative = f'{{"model": "{tmp_path}/draft", "num_speculative_tokens": 3}}'
    found = facts(f"vllm serve {checkpoint} --speculative-config '{speculative}'").checkpoints
    assert [(Path(each.where).name, each.role) for each in found] == [
        ("ckpt", "model"),
        ("draft", "draft"),
    ]


def test_what_was_given_is_not_read_twice(checkpoint: Path) -> None:
    assert len(facts(f"vllm serve {checkpoint}/", model=str(checkpoint)).checkpoints) == 1


def test_an_engine_and_a_repository(tmp_path: Path) -> None:
    write_engine(tmp_path / "engine")
    write_model(tmp_path / "models" / "m")
    assert len(facts(f"trtllm-serve {tmp_path}/engine").engines) == 1
    found = facts(f"tritonserver --model-repository={tmp_path}/models")
    assert [each.where for each in found.repositories] == [f"{tmp_path}/models"]


@pytest.mark.parametrize(
    "command",
    [
        "vllm serve meta-llama/Llama-3.1-8B",
        "vllm serve /absent/model",
        "docker run -v {here}:/ckpt vllm/vllm-openai:v0.19.0 --model {here}",
        "vllm serve {here}/..",
    ],
)
def test_a_name_a_missing_path_and_a_container_s_path_are_not_read(
    checkpoint: Path, command: str
) -> None:
    assert facts(command.format(here=checkpoint)).checkpoints == ()
