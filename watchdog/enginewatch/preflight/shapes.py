"""The shape of a model: what its config.json says of its size, or its public name tells.

From the shape follow the parameters of each kind and the bytes that a token leaves in
the KV cache. Sums are checked against the published counts in `rules/compat/models.yml`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath
from typing import Any, Final

from enginewatch.evidence.tables import load_table
from enginewatch.model import compile_re2
from enginewatch.rulepack import rules_path


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Names are those of `rules/compat/models.yml`; counts, and widths in elements.

    `kv_rank` above 0 means multi-head latent attention: the cache holds one latent of
    `kv_rank + rope_dim` elements a layer and token, the same on every tensor-parallel rank.
    """

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    mlp: int
    vocab: int
    tied: bool = False
    experts: int = 0
    active: int = 0
    expert: int = 0
    shared: int = 0
    dense: int = 0
    q_rank: int = 0
    kv_rank: int = 0
    rope_dim: int = 0
    nope_dim: int = 0
    v_dim: int = 0
    mtp: int = 0
    window: int = 0
    local: int = 0
    length: int = 0
    bias: str = ""
    norms: int = 2
    qk_norm: bool = False
    gated: bool = True

    @property
    def expert_layers(self) -> int:
        return self.layers - self.dense if self.experts else 0


@dataclass(frozen=True, slots=True)
class Parameters:
    """How many there are of each kind; `experts` are those that expert parallelism spreads.

    `head` is 0 where the embedding serves as the output layer too. `mtp` are those of the
    layers for multi-token prediction, which `total` leaves out.
    """

    embedding: int
    head: int
    attention: int
    mlp: int
    experts: int
    norms: int
    mtp: int

    @property
    def total(self) -> int:
        return self.embedding + self.head + self.attention + self.mlp + self.experts + self.norms


def parameters(shape: Shape) -> Parameters:
    """The parameters of a decoder of this shape."""
    attention = _attention(shape)
    width = 3 if shape.gated else 2
    every = shape.bias == "all"
    dense = width * shape.hidden * shape.mlp
    one_expert = width * shape.hidden * shape.expert
    if every:
        one_expert += 2 * shape.expert + shape.hidden
    router = shape.hidden * shape.experts + (shape.experts if every else 0)
    beside = router + width * shape.hidden * shape.shared
    layers = shape.expert_layers
    experts = layers * shape.experts * one_expert
    embedding = shape.vocab * shape.hidden
    norms = shape.layers * shape.norms * shape.hidden + shape.hidden
    # A layer for multi-token prediction (DeepSeek-V3): a layer with experts, a projection of
    # two widths and three norms more; it shares embedding and output layer.
    extra = shape.experts * one_expert + beside + attention + 2 * shape.hidden**2
    return Parameters(
        embedding=embedding,
        head=0 if shape.tied else embedding,
        attention=shape.layers * attention,
        mlp=(shape.layers - layers) * dense + layers * (beside if shape.experts else 0),
        experts=experts,
        norms=norms,
        mtp=shape.mtp * (extra + 5 * shape.hidden),
    )


def _attention(shape: Shape) -> int:
    """The parameters of one layer's attention."""
    hidden = shape.hidden
    if shape.kv_rank:
        query = shape.heads * (shape.nope_dim + shape.rope_dim)
        down = shape.q_rank * (hidden + 1) if shape.q_rank else 0
        up = (shape.q_rank or hidden) * query
        latent = hidden * (shape.kv_rank + shape.rope_dim) + shape.kv_rank
        expand = shape.kv_rank * shape.heads * (shape.nope_dim + shape.v_dim)
        return down + up + latent + expand + shape.heads * shape.v_dim * hidden
    query, key = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    count = hidden * (2 * query + 2 * key)
    if shape.bias:
        count += query + 2 * key
    if shape.bias == "all":
        count += hidden + shape.heads
    return count + (2 * shape.head_dim if shape.qk_norm else 0)


def kv_elements(shape: Shape, tensor_parallel: int = 1) -> int:
    """Elements that a token adds to one rank's cache, in all layers.

    Key and value of each KV head, at least one head a rank; or one latent a layer,
    which tensor parallelism does not divide (TensorRT-LLM, `get_cache_size_per_token`).
    """
    return shape.layers * _kv_layer(shape, tensor_parallel)


def _kv_layer(shape: Shape, tensor_parallel: int) -> int:
    if shape.kv_rank:
        return shape.kv_rank + shape.rope_dim
    return 2 * max(1, math.ceil(shape.kv_heads / tensor_parallel)) * shape.head_dim


def kv_elements_of(shape: Shape, length: int, tensor_parallel: int = 1) -> int:
    """Elements of one sequence of this length: layers with a window keep no more than it."""
    layer = _kv_layer(shape, tensor_parallel)
    if not shape.window:
        return shape.layers * layer * length
    local = shape.local * min(length, shape.window)
    return layer * (local + (shape.layers - shape.local) * length)


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A row of `rules/compat/models.yml`: RE2 over the last part of a name in small letters."""

    shape: Shape
    match: Any
    published: int


@cache
def known_models() -> tuple[KnownModel, ...]:
    """Those of `rules/compat/models.yml`. Raises SignatureError where it can't be read."""
    rows = load_table(rules_path() / "compat" / "models.yml").rows.values()
    own = set(Shape.__dataclass_fields__)
    return tuple(
        KnownModel(
            Shape(**{key: value for key, value in row.items() if key in own}),  # type: ignore[arg-type]
            compile_re2(str(row["match"])),
            int(str(row["published"])),
        )
        for row in rows
    )


def shape_of_name(model: str) -> Shape | None:
    """The shape of a public model by its name or the last part of a path; None if not known."""
    name = PurePosixPath(model.rstrip("/")).name.lower()
    return next((known.shape for known in known_models() if known.match.search(name)), None)


_RUNTIME_LAYERS: Final = ("mamba", "linear_attn", "ssm", "rwkv", "conv_L_cache")


def shape_of_config(config: Mapping[str, Any], name: str) -> Shape | None:
    """The shape that a config.json tells, also one inside `text_config`.

    None where it lacks what a decoder has, or has layers (state spaces, linear attention)
    whose memory this does not know.
    """
    inner = config.get("text_config")
    if isinstance(inner, Mapping) and "hidden_size" in inner:
        config = {**inner, "tie_word_embeddings": _tied(config, inner)}
    if any(str(key).startswith(_RUNTIME_LAYERS) for key in config):
        return None
    hidden, layers, heads, vocab = (
        _count(config, key)
        for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
    )
    if not (hidden and layers and heads and vocab):
        return None
    experts = _first(config, "n_routed_experts", "num_local_experts", "num_experts")
    expert = _count(config, "moe_intermediate_size")
    mlp = _count(config, "intermediate_size")
    shared = _count(config, "n_shared_experts") * expert
    window, local = _windows(config, layers)
    return Shape(
        name=name,
        hidden=hidden,
        layers=layers,
        heads=heads,
        kv_heads=_count(config, "num_key_value_heads") or heads,
        head_dim=_count(config, "head_dim") or hidden // heads,
        mlp=mlp or 4 * hidden,
        vocab=vocab,
        tied=bool(config.get("tie_word_embeddings", False)),
        experts=experts,
        active=_count(config, "num_experts_per_tok"),
        expert=(expert or mlp) if experts else 0,
        shared=shared or _count(config, "shared_expert_intermediate_size"),
        dense=_count(config, "first_k_dense_replace"),
        q_rank=_count(config, "q_lora_rank"),
        kv_rank=_count(config, "kv_lora_rank"),
        rope_dim=_count(config, "qk_rope_head_dim"),
        nope_dim=_count(config, "qk_nope_head_dim"),
        v_dim=_count(config, "v_head_dim"),
        mtp=_count(config, "num_nextn_predict_layers"),
        length=_count(config, "max_position_embeddings"),
        bias=_bias(config),
        norms=4 if str(config.get("model_type", "")).startswith("gemma") else 2,
        qk_norm=str(config.get("model_type", "")).startswith(("qwen3", "gemma3")),
        window=window,
        local=local,
    )


def _tied(config: Mapping[str, Any], inner: Mapping[str, Any]) -> bool:
    gemma = str(inner.get("model_type", "")).startswith("gemma")
    return bool(inner.get("tie_word_embeddings", config.get("tie_word_embeddings", gemma)))


def _bias(config: Mapping[str, Any]) -> str:
    kind = str(config.get("model_type", ""))
    if kind == "gpt_oss":
        return "all"
    return "qkv" if config.get("attention_bias") or kind in {"qwen2", "qwen2_moe"} else ""


def _windows(config: Mapping[str, Any], layers: int) -> tuple[int, int]:
    """The window, and how many layers have it: by `layer_types`, else by Gemma 2's halves."""
    window = _count(config, "sliding_window")
    if not window or config.get("use_sliding_window") is False:
        return 0, 0
    kinds = config.get("layer_types")
    if isinstance(kinds, list):
        return window, sum(kind == "sliding_attention" for kind in kinds)
    pattern = _count(config, "sliding_window_pattern") or (
        2 if config.get("model_type") == "gemma2" else 0
    )
    return window, layers - layers // pattern if pattern else layers


def _count(config: Mapping[str, Any], key: str) -> int:
    value = config.get(key)
    good = isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**40
    return int(value) if good and value is not None else 0


def _first(config: Mapping[str, Any], *keys: str) -> int:
    return next((count for key in keys if (count := _count(config, key))), 0)
