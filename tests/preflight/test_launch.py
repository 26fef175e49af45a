"""Commands as people write them, as settings with one name each."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginewatch.preflight.readers.launch import Launch, known_launchers, read_launches
from enginewatch.preflight.readers.shell import ShellError, read_script


def launches(text: str, **files: str) -> tuple[Launch, ...]:
    return read_launches(read_script(text, "run.sh"), files.get)


def launch(text: str, **files: str) -> Launch:
    found = launches(text, **files)
    assert len(found) == 1
    return found[0]


def values(found: Launch) -> dict[str, Any]:
    return {name: each.value for name, each in found.settings.items()}


def kinds(found: Launch) -> list[str]:
    return [problem.kind for problem in found.problems]


COMMANDS: list[tuple[str, str, dict[str, Any]]] = [
    (
        "vllm serve Qwen/Qwen3-8B -tp 2 --max_model_len 8k --no-enable-prefix-caching",
        "vllm",
        {"model": "Qwen/Qwen3-8B", "tensor_parallel": 2, "max_model_len": 8000,
         "prefix_caching": False},
    ),
    (
        "python3 -u -m vllm.entrypoints.openai.api_server --model=m --max-num-seqs=64",
        "vllm",
        {"model": "m", "max_num_seqs": 64},
    ),
    (
        "vllm serve m --speculative-config.model d --speculative-config.num_speculative_tokens 3",
        "vllm",
        {"draft_model": "d", "speculative_tokens": 3},
    ),
    (
        "python -m sglang.launch_server --model-path m --tp 8 --chunked-prefill-size 4096",
        "sglang",
        {"model": "m", "tensor_parallel": 8, "max_num_batched_tokens": 4096},
    ),
    (
        "trtllm-serve serve m --tp_size 4 --kv_cache_free_gpu_memory_fraction 0.8",
        "trtllm",
        {"model": "m", "tensor_parallel": 4, "free_gpu_memory_fraction": 0.8},
    ),
    (
        "trtllm-build --checkpoint_dir c --output_dir e --max_batch_size 64 --max_seq_len 4096",
        "trtllm",
        {"model": "c", "engine_dir": "e", "max_num_seqs": 64, "max_model_len": 4096},
    ),
    (
        "mpirun -n 2 --allow-run-as-root tritonserver --model-repository=/m : -n 1 tritonserver",
        "triton",
        {"model_repository": "/m"},
    ),
    (
        "python3 /app/scripts/launch_triton_server.py --world_size=4 --model_repo=/m",
        "triton",
        {"tensor_parallel": 4, "model_repository": "/m"},
    ),
    ("env -u A B=1 nohup stdbuf -oL timeout 5 vllm serve m", "vllm", {"model": "m"}),
    ("srun --ntasks=8 bash -lc 'exec vllm serve m --port 1'", "vllm", {"model": "m", "port": 1}),
    ("docker run --rm -it --gpus all -p 8000:8000 vllm/vllm-openai:v0.9.0 --model m", "vllm",
     {"model": "m"}),
    ("docker run vllm/vllm-openai:v0.11.0 m -tp 2", "vllm", {"model": "m", "tensor_parallel": 2}),
    ("docker run --gpus 2 lmsysorg/sglang:latest python3 -m sglang.launch_server --model m",
     "sglang", {"model": "m"}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "runtime", "expected"), COMMANDS)
def test_settings(text: str, runtime: str, expected: dict[str, Any]) -> None:
    found = launch(text)
    assert found.runtime == runtime
    assert {name: values(found).get(name) for name in expected} == expected
    assert found.problems == ()


PROBLEMS = [
    ("vllm serve m --tensor-paralel-size 2", "unknown_flag", "--tensor-parallel-size"),
    ("vllm serve m --num-lookahead-slots 4", "removed_flag", ""),
    ("vllm serve m --speculative-model d", "removed_flag", "--speculative-config"),
    ("""vllm serve m --speculative-config {"model": "d"}""", "json_unquoted",
     """--speculative-config '{"model": "d"}'"""),
    ("""vllm serve m --speculative-config "{'model': 'd'}" """, "json_invalid",
     """--speculative-config '{"model": "d"}'"""),
    ("vllm serve m —max-num-seqs 4", "typographic_dash", "--max-num-seqs"),
    ("vllm serve m --max-num-seqs many", "value_type", ""),
    ("vllm serve m --max-num-seqs --port 1", "value_missing", ""),
    ("vllm serve m max-num-seqs 4", "stray_word", ""),
    ("vllm serve m --max-num-seqs 4 \\ \n --port 1", "escaped_blank", ""),
    ("vllm serve m \\\n # x\n --port 1", "option_as_command", ""),
    ("vllm serve m --config nowhere.yml", "config_missing", ""),
    ("""vllm serve m --speculative-config '{"modle": "d"}'""", "unknown_key", "model"),
    ("trtllm-serve m --extra_llm_api_options a.yml", "unknown_key", "max_batch_size"),
    ("trtllm-build --checkpoint_dir c --max_output_len 4", "removed_flag", "--max_seq_len"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind", "near"), PROBLEMS)
def test_what_is_wrong_is_told_with_a_remedy(text: str, kind: str, near: str) -> None:
    found = launch(text, **{"a.yml": "max_batchsize: 4\n"})
    problem = next(each for each in found.problems if each.kind == kind)
    assert problem.near == near
    assert problem.where.startswith(("run.sh:", "a.yml:"))


def test_unquoted_json_is_still_judged_as_it_was_meant() -> None:
    found = launch(
        """vllm serve m --speculative-config {"model": "d", "num_speculative_tokens": 5}"""
    )
    assert found.number("speculative_tokens") == 5
    assert found.text("draft_model") == "d"


def test_flags_win_over_vllms_file_and_the_yaml_over_trtllms_flags() -> None:
    ours = launch("vllm serve m --config a --max-num-seqs 8", a="max-num-seqs: 4\nblock_size: 32\n")
    assert (ours.number("max_num_seqs"), ours.number("block_size")) == (8, 32)
    theirs = launch("trtllm-serve m --config a --max_batch_size 8", a="max_batch_size: 4\n")
    assert theirs.number("max_num_seqs") == 4


def test_nested_keys_of_trtllms_yaml() -> None:
    text = (
        "kv_cache_config:\n  dtype: fp8\n"
        "speculative_config: {decoding_type: MTP, max_draft_len: 3}\n"
    )
    found = launch("trtllm-serve m --config a", a=text)
    assert found.text("kv_cache_dtype") == "fp8"
    assert found.number("speculative_tokens") == 3
    assert found.where_of("kv_cache_dtype") == "a:2"


def test_containers_tell_their_gpus_and_shared_memory() -> None:
    text = """docker run --gpus '"device=0,3"' --shm-size=16g -e A=1 vllm/vllm-openai --model m"""
    found = launch(text)
    assert found.container is not None
    assert (found.container.gpus, found.container.shm_bytes) == (2, 16 << 30)
    assert {name: each.value for name, each in found.env.items()} == {"A": "1"}


def test_secrets_are_not_kept_in_the_command() -> None:
    assert "sk-verysecret" not in launch("vllm serve m --api-key sk-verysecret123456").command


def test_other_commands_start_nothing() -> None:
    assert (
        launches("ls; python3 train.py; pip install vllm; curl localhost; vllm bench serve") == ()
    )


def test_every_launcher_has_its_table() -> None:
    for each in known_launchers():
        assert each.flags
        assert each.program or each.module


_WORD = st.sampled_from(
    ["vllm", "serve", "m", "--model", "--max-num-seqs", "=", "4", "{", '"a":', "}", "--x", "-n",
     "docker", "run", "--gpus", "env", "A=1", "bash", "-c", "'vllm serve m'", "mpirun", "--", "-",
     "trtllm-serve", "--config", "python", "-m", "sglang.launch_server", "\\\n", "—tp", "1e999K"]
)  # fmt: skip


@settings(deadline=None, max_examples=300)
@given(st.lists(_WORD, max_size=12))
def test_any_words_are_read_or_refused(given_words: list[str]) -> None:
    with suppress(ShellError):
        launches(" ".join(given_words))
