"""Which model is judged: files before names, and options where commands leave it open."""

from __future__ import annotations

from pathlib import Path

import pytest

from enginewatch.preflight.errors import PreflightError
from enginewatch.preflight.example import write_example
from enginewatch.preflight.inputs import Inputs, gather
from enginewatch.preflight.served import Served, served


def given(**options: str) -> list[Served]:
    named = {f"--{name}": (value,) for name, value in options.items()}
    return list(served(gather(Inputs({"--gpus": ("4xH100",), **named}))))


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(write_example(tmp_path) / "checkpoint")


def test_a_name_alone_is_spread_over_the_gpus() -> None:
    [found] = given(model="meta-llama/Llama-3.1-8B", draft="meta-llama/Llama-3.2-1B")
    assert found.model is not None
    assert found.draft is not None
    assert (found.model.shape.layers, found.draft.shape.layers) == (32, 16)
    assert found.world == 4
    assert found.missing == ("the runtime that serves it (--command, or --runtime vllm=0.11.0)",)


def test_a_declared_version_tells_the_runtime() -> None:
    [found] = given(model="meta-llama/Llama-3.1-8B", runtime="vllm=0.11.0")
    assert found.launch.runtime == "vllm"
    assert not found.missing


def test_files_tell_more_than_a_name(checkpoint: str) -> None:
    [found] = given(command=f"vllm serve {checkpoint}", model=checkpoint)
    assert found.model is not None
    assert (found.model.shape.hidden, found.model.format.name) == (64, "nvfp4")
    # Embeddings and norm in 16 bits; a layer's 36,864 weights in four, with a scale each sixteen.
    layer = 36_864 // 2 + 36_864 // 16 + 7 * 8 + 2 * 64 * 2
    assert found.model.weight_bytes == 256 * 64 * 2 + 64 * 2 + 2 * layer


def test_the_files_of_what_goes_by_another_name_where_it_is_served(checkpoint: str) -> None:
    [found] = given(command="vllm serve /models/ours", model=checkpoint)
    assert found.model is not None
    assert found.model.shape.hidden == 64


def test_files_are_not_taken_for_one_of_two_models(checkpoint: str) -> None:
    script = "vllm serve a/one & vllm serve a/two"
    assert [each.model for each in given(command=script, model=checkpoint)] == [None, None]


def test_a_command_s_own_model_is_not_replaced_by_a_name() -> None:
    [found] = given(command="vllm serve meta-llama/Llama-3.1-70B", model="meta-llama/Llama-3.1-8B")
    assert found.model is not None
    assert found.model.shape.layers == 80


@pytest.mark.parametrize("value", ["./nowhere", "/nowhere", "~/nowhere", "a/b/c"])
def test_a_path_that_is_not_there_is_no_name(value: str) -> None:
    with pytest.raises(PreflightError, match="does not exist"):
        given(model=value)
