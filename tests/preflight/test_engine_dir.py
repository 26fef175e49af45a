"""TensorRT-LLM engine directories and Triton model repositories, as they lie on a disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.preflight.planforge import forge, form, record_of

from enginewatch.preflight.artifacts import library, model_repository
from enginewatch.preflight.errors import PreflightError
from enginewatch.preflight.inputs import Inputs, gather
from enginewatch.preflight.readers.checkpoint import read_checkpoint
from enginewatch.preflight.readers.engine_dir import read_engine_dir
from enginewatch.preflight.readers.pbtxt import PbtxtError, parse
from enginewatch.preflight.readers.repository import read_repository
from enginewatch.preflight.readers.stampfile import read_stamp


def build_config(tp: int = 2, pp: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "version": "1.2.1",
        "pretrained_config": {
            "architecture": "LlamaForCausalLM",
            "dtype": "bfloat16",
            "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": None},
            "mapping": {"world_size": tp * pp, "tp_size": tp, "pp_size": pp},
        },
        "build_config": {"max_batch_size": 64, "max_num_tokens": 8192, **more},
    }


def write_engine(folder: Path, ranks: int = 2, model: str = "H100 SXM", **config: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(build_config(**config)))
    for rank in range(ranks):
        (folder / f"rank{rank}.engine").write_bytes(forge(form("C4"), record_of(model)))
    return folder


def test_configuration_and_plans_of_all_ranks(tmp_path: Path) -> None:
    found = read_engine_dir(write_engine(tmp_path, tp=2, pp=2, ranks=4))
    assert found.unread == ()
    assert found.is_trtllm
    assert (found.trtllm, found.world_size, found.mapping("pp_size")) == ("1.2.1", 4, 2)
    assert (found.built("max_batch_size"), found.built("max_seq_len")) == (64, None)
    assert (found.format, found.kv_cache_format) == ("FP8", "")
    assert sorted(found.ranks) == [0, 1, 2, 3]
    assert {plan.tensorrt for plan in found.plans} == {"10.6.0.26"}


def test_rank_files_without_a_configuration_are_told(tmp_path: Path) -> None:
    write_engine(tmp_path, tp=2, ranks=2)
    (tmp_path / "config.json").unlink()
    assert "no config.json" in read_engine_dir(tmp_path).unread[0].what


def test_a_rank_that_is_a_link_to_nothing_is_told(tmp_path: Path) -> None:
    (tmp_path / "rank0.engine").symlink_to("blobs/gone")
    assert "leads to no file" in read_engine_dir(tmp_path).ranks[0].problem


def test_a_world_size_that_is_smaller_than_its_parts_is_not_believed(tmp_path: Path) -> None:
    write_engine(tmp_path, tp=4)
    config = build_config(tp=4)
    config["pretrained_config"]["mapping"]["world_size"] = 1
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert read_engine_dir(tmp_path).world_size == 4


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("config.json", b"{", "not JSON"),
        ("config.json", b"[1]", "no JSON object"),
        ("notes.txt", b"", "no rankN.engine"),
    ],
)
def test_what_can_t_be_read_is_told(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    assert said in read_engine_dir(tmp_path).unread[0].what


def test_a_directory_of_plain_plans(tmp_path: Path) -> None:
    (tmp_path / "model.plan").write_bytes(forge(form("C3"), record_of("T4")))
    found = read_engine_dir(tmp_path)
    assert not found.is_trtllm
    assert [plan.models for plan in found.plans] == [("T4",)]


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda x: st.dictionaries(
            st.sampled_from(("pretrained_config", "mapping", "tp_size", "version", "build_config")),
            x,
        ),
    )
)
@settings(deadline=None, max_examples=60)
def test_configurations_of_any_shape_never_raise(tmp_path_factory: Any, value: Any) -> None:
    folder = tmp_path_factory.mktemp("engine")
    (folder / "config.json").write_text(json.dumps(value if isinstance(value, dict) else {}))
    found = read_engine_dir(folder)
    assert isinstance(found.trtllm, str)
    assert found.world_size is None or found.world_size >= 0
    assert found.cluster_key == ""


CONFIG = """
# As tensorrtllm_backend has it.
name: "tensorrt_llm"
backend: "tensorrtllm"
max_batch_size: 64
model_transaction_policy { decoupled: true }
dynamic_batching < preferred_batch_size: [ 64 , 0x20 ] max_queue_delay_microseconds: 100 >
input [
  { name: "input_ids" data_type: TYPE_INT32 dims: [ -1 ], allow_ragged_batch: true },
  { name: 'request_output_len'; data_type: TYPE_INT32; dims: [ 1 ] }
]
instance_group [ { count: 2 kind: KIND_GPU gpus: [ 0, 1 ] }, { count: 1, kind: KIND_CPU } ]
parameters: { key: "gpt_model_path" value: { string_value: "/engines/" "llama" } }
parameters { key: "kv_cache_free_gpu_mem_fraction" value { string_value: "0.9" } }
parameters { key: "batching_strategy" value { string_value: "${batching_strategy}" } }
"""


def write_model(folder: Path, config: str = CONFIG) -> Path:
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(config)
    return folder


def test_a_model_of_the_trtllm_backend(tmp_path: Path) -> None:
    write_model(tmp_path / "tensorrt_llm")
    (found,) = read_repository(tmp_path).models
    assert found.is_trtllm
    assert found.max_batch_size == 64
    assert found.engine_dirs == ("/engines/llama",)
    assert found.parameters["kv_cache_free_gpu_mem_fraction"] == "0.9"
    assert found.unset == ("batching_strategy",)
    assert found.instances == 4
    assert found.versions == (1,)


def test_a_plain_plan_without_a_configuration(tmp_path: Path) -> None:
    (tmp_path / "detector" / "3").mkdir(parents=True)
    plan = tmp_path / "detector" / "3" / "model.plan"
    plan.write_bytes(forge(form("C2"), record_of("RTX 3090")))
    (found,) = read_repository(tmp_path).models
    assert (found.name, found.has_config, found.versions) == ("detector", False, (3,))
    assert found.plans[0].models == ("RTX 3090",)


@pytest.mark.parametrize(
    ("policy", "served"),
    [
        ("", ["T4"]),
        ("version_policy: { all { } }", ["RTX 3090", "A10", "T4"]),
        ("version_policy: { latest { num_versions: 2 } }", ["A10", "T4"]),
        ("version_policy: { specific { versions: [ 1, 7 ] } }", ["RTX 3090"]),
    ],
)
def test_plans_of_the_versions_that_are_served(
    tmp_path: Path, policy: str, served: list[str]
) -> None:
    for version, gpu in ((1, "RTX 3090"), (2, "A10"), (10, "T4")):
        folder = tmp_path / "m" / str(version)
        folder.mkdir(parents=True)
        (folder / "model.plan").write_bytes(forge(form("C2"), record_of(gpu)))
    (tmp_path / "m" / "config.pbtxt").write_text(f'platform: "tensorrt_plan"\n{policy}\n')
    (found,) = read_repository(tmp_path).models
    assert {gpu for plan in found.plans for gpu in plan.models} >= set(served)
    assert len(found.plans) == len(served)


def test_the_folder_of_one_model_is_taken_for_it(tmp_path: Path) -> None:
    write_model(tmp_path)
    assert [each.name for each in read_repository(tmp_path).models] == ["tensorrt_llm"]


def test_platforms_of_before_backends(tmp_path: Path) -> None:
    write_model(tmp_path / "old", 'platform: "tensorrt_plan"\n')
    assert read_repository(tmp_path).models[0].backend == "tensorrt"


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("name", "1:5", "no ':'"),
        ('name: "open', "1:7", "can't stand"),
        ("a {\n  b: 1\n", "3:1", "a '}' is missing"),
        ("a: }", "1:4", "where a value"),
        ("}", "1:1", "field's name"),
        ("a: [1 2]", "1:7", "',' or ']'"),
        ("a: [1,", "1:7", "where a value"),
        ("a: \x00", "1:4", "can't stand"),
        (f"a: {'9' * 5000}", "1:4", "too many digits"),
        ("a {" * 100, "1:154", "nested too deeply"),
    ],
)
def test_text_that_is_none_tells_the_place(text: str, place: str, said: str) -> None:
    with pytest.raises(PbtxtError) as failure:
        parse(text, "config.pbtxt")
    assert failure.value.where == f"config.pbtxt:{place}"
    assert said in failure.value.what


@given(st.text(alphabet="ab:{}[]<>,;\"'#\\ \n0.-e", max_size=40))
@settings(deadline=None, max_examples=200)
def test_any_text_is_read_or_refused_with_its_place(text: str) -> None:
    try:
        parse(text, "f")
    except PbtxtError as failure:
        place = failure.where
    else:
        place = "f:1:1"
    assert place.startswith("f:")


def test_a_bad_configuration_is_told_and_the_others_read(tmp_path: Path) -> None:
    write_model(tmp_path / "good")
    write_model(tmp_path / "bad", "name: {")
    found = read_repository(tmp_path)
    assert [each.where for each in found.unread] == [f"{tmp_path}/bad/config.pbtxt:1:8"]
    assert len(found.models) == 1


def test_engine_directories_that_a_repository_names_are_read(tmp_path: Path) -> None:
    engine = write_engine(tmp_path / "engines")
    write_model(
        tmp_path / "models" / "m",
        CONFIG.replace("/engines/", f"{engine}/../engin").replace('"llama"', '"es"'),
    )
    write_model(tmp_path / "models" / "n")
    facts = model_repository(str(tmp_path / "models"))
    assert [each.trtllm for each in facts.engines] == ["1.2.1"]
    assert [each.where for each in facts.unread] == ["/engines/llama"]


def test_what_is_not_there_is_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(PreflightError, match="does not exist"):
        model_repository(str(tmp_path / "absent"))
    with pytest.raises(PreflightError, match="does not exist"):
        library(str(tmp_path / "absent.so"))


@pytest.mark.parametrize("value", ["a" * 5_000, "~nobody-here/engine", "a\0b"])
def test_a_path_that_can_t_even_be_looked_for_is_wrong_use(value: str) -> None:
    for option in (
        *("--engine-dir", "--model-repository", "--library", "--model", "--draft"),
        *("--script", "--manifest", "--freeze", "--evals", "--baseline-evals"),
    ):
        with pytest.raises(PreflightError):
            gather(Inputs({option: (value,)}))


def test_a_folder_that_can_t_be_entered_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "stat", refuse)
    monkeypatch.setattr(Path, "iterdir", refuse)
    assert "Permission denied" in read_engine_dir(tmp_path).unread[0].what
    assert "Permission denied" in read_checkpoint(tmp_path).unread[0].what
    assert "Permission denied" in read_repository(tmp_path).unread[0].what
    assert "Permission denied" in read_stamp(tmp_path).what


def test_libraries_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "kernels.cubin").write_bytes(b"rubbish")
    (tmp_path / "a" / "readme.txt").write_text("nothing")
    facts = library(str(tmp_path))
    assert len(facts.libraries) == 1
    assert "neither a CUDA image" in facts.unread[0].what
