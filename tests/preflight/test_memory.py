"""Memory sums against published figures, and against what must hold of any of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginewatch.preflight.memory import (
    Model,
    Plan,
    cache_size,
    estimate,
    logits_bytes,
    pool,
    rank_weight_bytes,
    weight_bytes,
    weight_format,
)
from enginewatch.preflight.shapes import Shape, known_models, shape_of_name

GIBI = 2**30


def shape(name: str) -> Shape:
    found = shape_of_name(name)
    assert found is not None
    return found


def plan(name: str, **given: Any) -> Plan:
    number_format = weight_format(given.pop("format", "bf16"))
    sizes = {"step_tokens": 8192, "sequences": 64, "length": 8192, **given}
    return Plan(model=Model(shape=shape(name), format=number_format), **sizes)


@pytest.mark.parametrize(
    ("name", "number_format", "gigabytes"),
    [
        ("Llama-3.1-70B", "bf16", 141.1),
        ("Llama-3.1-8B", "bf16", 16.06),
        ("Llama-3.1-405B", "bf16", 811.7),
        ("DeepSeek-V3", "fp8_block", 673),  # 671 billion in FP8; embeddings and output in bf16
        ("gpt-oss-20b", "mxfp4", 13.8),  # files of the original checkpoint
        ("gpt-oss-120b", "mxfp4", 65.2),
        ("Llama-3.1-70B", "nvfp4", 42.7),
    ],
)
def test_weights_against_the_published_checkpoints(
    name: str, number_format: str, gigabytes: float
) -> None:
    found = weight_bytes(shape(name), weight_format(number_format))
    assert found / 1e9 == pytest.approx(gigabytes, rel=0.01)


@pytest.mark.parametrize(
    ("tensor", "weights", "cache"), [(2, 65.7, 80.0), (4, 32.9, 40.0), (8, 16.4, 20.0)]
)
def test_llama_70b_over_several_gpus(tensor: int, weights: float, cache: float) -> None:
    """Of the worked example: bf16, 64 sequences of 8192 tokens, GiB on each GPU."""
    found = estimate(plan("Llama-3.1-70B", tensor=tensor))
    assert found.fixed[0].amount / GIBI == pytest.approx(weights, rel=0.01)
    assert 64 * found.sequence / GIBI == pytest.approx(cache, rel=0.01)


def test_a_draft_adds_its_weights_and_its_own_cache() -> None:
    draft = Model(shape=shape("Llama-3.1-8B"), format=weight_format("bf16"))
    found = estimate(plan("Llama-3.1-70B", tensor=2, draft=draft, draft_tensor=2))
    assert found.draft_weights / GIBI == pytest.approx(7.5, rel=0.01)
    assert 64 * found.sequence / GIBI == pytest.approx(112, rel=0.01)
    assert found.token == 163_840 + 65_536


def test_activations_agree_with_measured_coefficients() -> None:
    """aiconfigurator's for Llama: 2 B x tokens x 8192 x 11 on one GPU, x 5 on four."""
    lines = {t: estimate(plan("Llama-3.1-70B", tensor=t)).fixed[1].amount for t in (1, 4)}
    assert lines[1] == pytest.approx(2 * 8192 * 8192 * 11, rel=0.2)
    assert lines[4] == pytest.approx(2 * 8192 * 8192 * 5, rel=0.2)


H100 = 79.6 * GIBI


def test_an_8_bit_70b_on_one_h100_against_its_log() -> None:
    """vLLM pull request 12569: weights 67.72 GiB, 1381 blocks of 16 tokens at 0.98 of the GPU."""
    sums = estimate(plan("Llama-3.1-70B", format="w8a8", sequences=256, sorts=True))
    assert sums.fixed[0].amount / GIBI == pytest.approx(67.72, rel=0.01)
    real = 0.98 * 79.1 * GIBI - 1381 * 16 * 327_680
    assert sums.total == pytest.approx(real, rel=0.05)


def test_a_large_mixture_on_four_h100_against_its_logs() -> None:
    """vLLM issue 21348: 8.11 GiB for 178,880 tokens in vLLM, 367,404 tokens at 0.93 in SGLang."""
    sums = estimate(
        plan("Qwen3-235B-A22B", format="fp8_block", tensor=4, sequences=1024, sorts=True)
    )
    assert sums.token == pytest.approx(8.11 * GIBI / 178_880, rel=0.02)
    assert sums.total == pytest.approx((0.9 * 79.1 - 8.11) * GIBI, rel=0.03)
    one = estimate(plan("Qwen3-235B-A22B", format="fp8_block", tensor=4, sequences=1))
    room = pool(one, "sglang", int(H100), 0.93).room
    assert room / one.token == pytest.approx(367_404, rel=0.10)


def test_speculation_multiplies_the_logits() -> None:
    with_, without = (estimate(plan("Llama-3.1-8B", sequences=256, speculative=k)) for k in (5, 0))
    assert logits_bytes(128256, 1536, sort=True) > GIBI
    assert with_.total > without.total
    [logits] = [line for line in with_.fixed if line.what.startswith("logits")]
    assert logits.note.startswith("256 x (1 + 5) rows of 128256")


def test_mla_is_the_same_on_every_rank_and_data_parallel_attention_divides_nothing() -> None:
    assert estimate(plan("DeepSeek-V3", tensor=8)).token == 70_272
    assert estimate(plan("Llama-3.1-70B", tensor=8, attention=1)).token == 327_680


def test_experts_are_spread_over_more_gpus_than_attention() -> None:
    """DeepSeek-V3 with data parallelism 8 in vLLM: 656 GB of experts over 8, the rest on each."""
    sums = estimate(plan("DeepSeek-V3", format="fp8_block", tensor=1, experts=8))
    assert sums.fixed[0].amount / 1e9 == pytest.approx(656 / 8 + 17, rel=0.03)
    whole = estimate(plan("DeepSeek-V3", format="fp8_block", tensor=8))
    assert whole.fixed[0].amount < sums.fixed[0].amount < 2 * whole.fixed[0].amount


def test_each_runtime_has_its_own_idea_of_a_share() -> None:
    found = estimate(plan("Llama-3.1-8B"))
    memory = 80 * GIBI
    usable = memory - 644_245_094
    vllm, trtllm, sglang = (
        pool(found, runtime, memory, 0.9) for runtime in ("vllm", "trtllm", "sglang")
    )
    free = usable - found.outside.amount
    assert vllm.room == int(usable * 0.9) - found.total
    assert trtllm.room == int((free - found.total) * 0.9)
    assert sglang.room == int(free * 0.9) - found.fixed[0].amount
    assert pool(found, "vllm", 8 * GIBI, 0.9).room < 0


def test_a_cache_of_a_given_size_needs_its_room_all_the_same() -> None:
    found = estimate(plan("Llama-3.1-8B"))
    fits = pool(found, "vllm", 80 * GIBI, 0.1, 20 * GIBI)
    assert fits.room == 20 * GIBI
    assert fits.slack > 0
    too_large = pool(found, "vllm", 24 * GIBI, 0.1, 20 * GIBI)
    assert too_large.room < 20 * GIBI
    assert too_large.slack < 0


def test_what_is_offloaded_is_not_on_the_gpu() -> None:
    here, there = (estimate(plan("Llama-3.1-8B", offloaded=size)).total for size in (0, 4 * GIBI))
    assert here - there == 4 * GIBI


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("NVFP4", "nvfp4"),
        ("Llama-3.1-8B-Instruct-FP8", "fp8"),
        ("awq", "int4"),
        ("mxfp4", "mxfp4"),
        ("bfloat16", "bf16"),
        ("", "bf16"),
        ("float32", "fp32"),
    ],
)
def test_formats_by_name(text: str, expected: str) -> None:
    assert weight_format(text).name == expected


@pytest.mark.parametrize(
    ("text", "size"), [("", 2), ("fp8_e4m3", 1), ("fp8", 1), ("nvfp4", 0.5625), ("bfloat16", 2)]
)
def test_elements_of_the_cache(text: str, size: float) -> None:
    assert cache_size(text) == size


_MODELS = st.sampled_from([known.shape for known in known_models()])


@settings(deadline=None, max_examples=100)
@given(_MODELS, st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4]))
def test_more_gpus_never_hold_more_each(model: Shape, tensor: int, pipeline: int) -> None:
    number_format = weight_format("bf16")
    whole = weight_bytes(model, number_format)
    part = rank_weight_bytes(model, number_format, tensor, pipeline)
    assert whole / (tensor * pipeline) <= part <= whole


@settings(deadline=None, max_examples=100)
@given(_MODELS, st.integers(1, 16384), st.integers(1, 512), st.integers(1, 65536))
def test_a_larger_ask_never_needs_less(
    model: Shape, step: int, sequences: int, length: int
) -> None:
    small = Plan(
        model=Model(shape=model, format=weight_format("fp8")),
        step_tokens=step,
        sequences=sequences,
        length=length,
    )
    large = replace(small, step_tokens=2 * step, sequences=sequences + 1, speculative=2)
    assert estimate(large).total >= estimate(small).total
    assert estimate(replace(small, length=length + 1)).sequence >= estimate(small).sequence
