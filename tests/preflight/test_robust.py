"""Any mix of inputs is judged: no rule fails on it, and only wrong use raises."""

from __future__ import annotations

import shlex
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginewatch.preflight.checks import samples, sheets
from enginewatch.preflight.errors import PreflightError
from enginewatch.preflight.example import write_example
from enginewatch.preflight.inputs import Inputs, gather
from enginewatch.preflight.judge import judge, shipped_preflight
from enginewatch.preflight.readers.flags import flag_table

LAUNCHERS = {
    "vllm serve {model}": "vllm",
    "python -m sglang.launch_server --model-path {model}": "sglang",
    "trtllm-serve {model}": "trtllm-serve",
    "trtllm-build --checkpoint_dir {model}": "trtllm-build",
    "tritonserver --model-repository {model}": "tritonserver",
}
MODELS = (
    "meta-llama/Llama-3.1-70B-Instruct",
    "deepseek-ai/DeepSeek-V3",
    "nvidia/Llama-3.1-8B-Instruct-FP4",
    "openai/gpt-oss-120b",
    "nobody/heard-of-it",
    "engine",
    "checkpoint",
)
GPUS = ("8xB200", "4xH100", "2xH200", "1xT4", "8xUnheardOf", "16xGB300", "3xRTX 5090")
VALUES = st.one_of(
    st.integers(-2, 2**40).map(str),
    st.sampled_from(["", "auto", "fp8", "nvfp4", "true", "0.9", "1.5", "nan", "8k", "{}", "[1]"]),
    st.sampled_from(['{"method": "ngram", "num_speculative_tokens": 5}', '{"model": 7}', "{a: b}"]),
)


@cache
def flags(table: str) -> tuple[str, ...]:
    return tuple(sorted(flag_table(table).by_name))


@st.composite
def commands(draw: st.DrawFn) -> str:
    form, table = draw(st.sampled_from(sorted(LAUNCHERS.items())))
    words = [form.format(model=draw(st.sampled_from(MODELS)))]
    for name in draw(st.lists(st.sampled_from(flags(table)), max_size=8)):
        words.append(name)
        if draw(st.booleans()):
            words.append(shlex.quote(draw(VALUES)))
    return " ".join(words)


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_example(tmp_path_factory.mktemp("robust"))


@given(
    scripts=st.lists(commands(), max_size=3),
    gpus=st.lists(st.sampled_from(GPUS), max_size=3, unique=True),
    models=st.lists(st.sampled_from(MODELS[:-2]), max_size=2),
    draft=st.lists(st.sampled_from(MODELS[:-2]), max_size=1),
    files=st.lists(
        st.sampled_from(["engine-dir engine", "model checkpoint", "manifest deployment.yml"]),
        unique=True,
    ),
    runtime=st.lists(
        st.sampled_from(["vllm=0.11.0", "tensorrt-llm=1.2.1", "sglang=0.5.3", "tensorrt=10.14.1"]),
        max_size=2,
    ),
    workload=st.lists(
        st.sampled_from(["prompt=3000,decode=300,itl=50ms", "prompt=1", "batch=4096"]), max_size=1
    ),
)
@settings(deadline=None, max_examples=60)
def test_any_mix_is_judged(
    example: Path,
    scripts: list[str],
    gpus: list[str],
    models: list[str],
    draft: list[str],
    files: list[str],
    runtime: list[str],
    workload: list[str],
) -> None:
    options: dict[str, tuple[str, ...]] = {
        "--command": tuple(scripts),
        "--gpus": tuple(gpus),
        "--model": tuple(models),
        "--draft": tuple(draft),
        "--runtime": tuple(runtime),
        "--workload": tuple(workload),
    }
    for file in files:
        name, _, path = file.partition(" ")
        options[f"--{name}"] = (*options.get(f"--{name}", ()), str(example / path))
    try:
        facts = gather(Inputs(options))
    except PreflightError:
        return
    judged = judge(samples(facts), shipped_preflight())
    failed = [each.summary for each in judged.findings if each.code == "EW-INPUT-002"]
    assert not failed
    for sheet in sheets(facts):
        assert all(line.amount >= 0 for line in sheet.lines), sheet
