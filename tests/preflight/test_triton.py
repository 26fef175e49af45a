"""Triton repositories: what the server would refuse, before it is started."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.preflight.planforge import forge, form, record_of
from tests.preflight.test_engine_dir import CONFIG, write_engine, write_model

from enginewatch.preflight.checks import samples
from enginewatch.preflight.facts import Facts
from enginewatch.preflight.inputs import Inputs, gather
from enginewatch.preflight.judge import judge, shipped_preflight


def codes(facts: Facts) -> set[str]:
    found = judge(samples(facts), shipped_preflight()).findings
    return {each.code for each in found if not each.unknown}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    engine = write_engine(tmp_path / "engine", model="H200")
    config = CONFIG.replace('"/engines/" "llama"', f'"{engine}"').replace("count: 2", "count: 1")
    write_model(tmp_path / "models" / "tensorrt_llm", config.replace("gpus: [ 0, 1 ]", ""))
    return tmp_path / "models"


def facts(repository: Path, gpu: str = "2xH200") -> Facts:
    inputs = {"--model-repository": (str(repository),), "--gpus": (gpu,)}
    return gather(Inputs(inputs))


def edited(repository: Path, old: str, new: str) -> None:
    path = repository / "tensorrt_llm" / "config.pbtxt"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_good_repository_and_its_engine(repository: Path) -> None:
    assert codes(facts(repository)) == set()
    assert codes(facts(repository, "2xB200")) == {"EW-ARCH-001"}


def test_a_batch_beyond_the_engine_s(repository: Path) -> None:
    edited(repository, "max_batch_size: 64", "max_batch_size: 128")
    assert codes(facts(repository)) == {"EW-STALE-005"}


def test_a_placeholder_for_the_engine(repository: Path) -> None:
    path = repository / "tensorrt_llm" / "config.pbtxt"
    path.write_text(CONFIG.replace('"/engines/" "llama"', '"${engine_dir}"'))
    assert "EW-TRITON-002" in codes(facts(repository))


@pytest.mark.parametrize(
    "parameters", ["", 'parameters { key: "gpt_model_path" value { string_value: "" } }']
)
def test_a_model_that_names_no_engine(repository: Path, parameters: str) -> None:
    path = repository / "tensorrt_llm" / "config.pbtxt"
    path.write_text(f'backend: "tensorrtllm"\n{parameters}\n')
    assert codes(facts(repository)) == {"EW-TRITON-002"}


def test_a_model_without_a_plan(repository: Path) -> None:
    config = 'platform: "tensorrt_plan"\ndefault_model_filename: "detector.bin"\n'
    folder = write_model(repository / "detector", config)
    assert codes(facts(repository)) == {"EW-TRITON-004"}
    (folder / "1" / "detector.bin").write_bytes(forge(form("C2"), record_of("H200")))
    assert codes(facts(repository)) == set()


def test_an_engine_loaded_twice(repository: Path) -> None:
    edited(repository, "count: 1 kind: KIND_GPU", "count: 2 kind: KIND_GPU")
    assert codes(facts(repository)) == {"EW-TRITON-003"}


def test_a_model_without_a_version(repository: Path) -> None:
    (repository / "tensorrt_llm" / "1").rmdir()
    assert codes(facts(repository)) == {"EW-TRITON-001"}
