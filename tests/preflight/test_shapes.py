"""Shapes of models, against published counts of parameters and bytes of cache."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginewatch.preflight.shapes import (
    KnownModel,
    known_models,
    kv_elements,
    kv_elements_of,
    parameters,
    shape_of_config,
    shape_of_name,
)


@pytest.mark.parametrize("known", known_models(), ids=lambda known: known.shape.name)
def test_parameters_add_up_to_the_published_count(known: KnownModel) -> None:
    assert parameters(known.shape).total == known.published


@pytest.mark.parametrize("known", known_models(), ids=lambda known: known.shape.name)
def test_a_name_finds_its_own_row(known: KnownModel) -> None:
    assert shape_of_name(known.shape.name) == known.shape


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("meta-llama/Llama-3.1-70B-Instruct", "meta-llama/Llama-3.1-70B"),
        ("meta-llama/Llama-3.3-70B-Instruct", "meta-llama/Llama-3.1-70B"),
        ("nvidia/Llama-3.1-8B-Instruct-FP8", "meta-llama/Llama-3.1-8B"),
        ("/models/Meta-Llama-3-8B/", "meta-llama/Llama-3.1-8B"),
        ("deepseek-ai/DeepSeek-R1", "deepseek-ai/DeepSeek-V3"),
        ("nvidia/DeepSeek-R1-0528-NVFP4", "deepseek-ai/DeepSeek-V3"),
        ("Qwen/Qwen2.5-72B-Instruct-AWQ", "Qwen/Qwen2.5-72B"),
        ("microsoft/phi-4", "microsoft/phi-4"),
        ("deepseek-ai/DeepSeek-V3.2", None),
        ("Qwen/Qwen3-Next-80B-A3B", None),
        ("my-finetune", None),
    ],
)
def test_names_as_people_write_them(name: str, row: str | None) -> None:
    shape = shape_of_name(name)
    assert (shape.name if shape else None) == row


@pytest.mark.parametrize(
    ("name", "tensor_parallel", "bytes_a_token"),
    [
        ("Llama-3.1-70B", 1, 327_680),  # 320 KiB
        ("Llama-3.1-70B", 4, 81_920),
        ("Llama-3.1-70B", 16, 40_960),  # 8 heads over 16 ranks: one each, twice
        ("Llama-3.1-8B", 1, 131_072),
        ("Llama-3.2-1B", 1, 32_768),
        ("DeepSeek-V3", 1, 70_272),  # MLA: one latent a layer
        ("DeepSeek-V3", 8, 70_272),  # and the same on every rank
    ],
)
def test_bytes_of_cache_a_token_in_bf16(
    name: str, tensor_parallel: int, bytes_a_token: int
) -> None:
    shape = shape_of_name(name)
    assert shape is not None
    assert 2 * kv_elements(shape, tensor_parallel) == bytes_a_token


def test_layers_with_a_window_keep_no_more_than_it() -> None:
    shape = shape_of_name("gpt-oss-120b")
    assert shape is not None
    long = kv_elements_of(shape, 100_000)
    assert long == 1024 * (18 * 128 + 18 * 100_000)
    assert kv_elements_of(shape, 100) == 100 * kv_elements(shape)


CONFIGS: list[tuple[str, dict[str, Any]]] = [
    (
        "meta-llama/Llama-3.1-8B",
        {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
         "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
         "model_type": "llama", "tie_word_embeddings": False},
    ),
    (
        "deepseek-ai/DeepSeek-V3",
        {"hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 128,
         "num_key_value_heads": 128, "intermediate_size": 18432, "moe_intermediate_size": 2048,
         "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8,
         "first_k_dense_replace": 3, "q_lora_rank": 1536, "kv_lora_rank": 512,
         "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
         "num_nextn_predict_layers": 1, "vocab_size": 129280, "model_type": "deepseek_v3"},
    ),
    (
        "google/gemma-3-4b",
        {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "hidden_size": 2560,
         "num_hidden_layers": 34, "num_attention_heads": 8, "num_key_value_heads": 4,
         "head_dim": 256, "intermediate_size": 10240, "vocab_size": 262208, "sliding_window": 1024,
         "sliding_window_pattern": 6}},
    ),
    (
        "openai/gpt-oss-20b",
        {"hidden_size": 2880, "num_hidden_layers": 24, "num_attention_heads": 64,
         "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880, "vocab_size": 201088,
         "num_local_experts": 32, "num_experts_per_tok": 4, "sliding_window": 128,
         "attention_bias": True, "model_type": "gpt_oss",
         "layer_types": ["sliding_attention", "full_attention"] * 12},
    ),
    (
        "mistralai/Mixtral-8x7B-v0.1",
        {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
         "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 32000,
         "num_local_experts": 8, "num_experts_per_tok": 2, "model_type": "mixtral"},
    ),
    (
        "Qwen/Qwen2.5-7B",
        {"hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28,
         "num_key_value_heads": 4, "intermediate_size": 18944, "vocab_size": 152064,
         "model_type": "qwen2", "sliding_window": 131072, "use_sliding_window": False},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "config"), CONFIGS)
def test_a_config_gives_the_shape_of_the_table(name: str, config: dict[str, Any]) -> None:
    shape, known = shape_of_config(config, "x"), shape_of_name(name)
    assert shape is not None
    assert known is not None
    assert parameters(shape) == parameters(known)
    assert kv_elements_of(shape, 5000) == kv_elements_of(known, 5000)


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"hidden_size": 1},
        {"hidden_size": "4096", "num_hidden_layers": 1, "num_attention_heads": 1, "vocab_size": 9},
        {**CONFIGS[0][1], "mamba_d_state": 16},
        {**CONFIGS[0][1], "num_attention_heads": -3},
    ],
)
def test_what_is_not_understood_has_no_shape(config: dict[str, Any]) -> None:
    assert shape_of_config(config, "x") is None


@settings(deadline=None, max_examples=100)
@given(
    st.dictionaries(
        st.sampled_from(sorted({*CONFIGS[1][1], "layer_types", "sliding_window", "head_dim"})),
        st.integers(-(2**70), 2**70) | st.none() | st.text(max_size=3) | st.booleans(),
    )
)
def test_any_config_has_a_shape_or_none(config: dict[str, Any]) -> None:
    shape = shape_of_config(config, "x")
    assert shape is None or parameters(shape).total > 0
