"""What one GPU has to hold: weights, draft, cache, activations, logits, graphs; line by line.

Everything is bytes on the fullest rank, from shapes and formats alone; constants and
their sources are in `rules/compat/memory.yml`. The engine's own figures, printed when it
starts, are better: this is for before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, NamedTuple

from enginewatch.evidence.tables import load_table
from enginewatch.model import compile_re2
from enginewatch.preflight.pins import numbers
from enginewatch.preflight.shapes import Shape, kv_elements, kv_elements_of, parameters
from enginewatch.preflight.sheet import Line
from enginewatch.rulepack import rules_path

_HALF: Final = 2
"""Bytes of a bf16 activation."""


class Format(NamedTuple):
    """A number format of weights: bytes an element, and which weights it covers."""

    name: str
    size: float
    covers: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model to be loaded. `weight_bytes` are those of its files, where they are known: they
    take the place of what shape and format would give."""

    shape: Shape
    format: Format
    weight_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a model is to be served. `cache_bytes` is the size of an element of the KV cache.

    `tensor` GPUs share a layer; `attention` and `experts` say how many share its attention and
    its experts where that is another number (data-parallel attention, expert parallelism).
    `step_tokens` is the token budget of a step, `sequences` and `length` the batch that is
    asked for, `speculative` how many tokens are drafted a step.
    """

    model: Model
    draft: Model | None = None
    tensor: int = 1
    pipeline: int = 1
    attention: int | None = None
    experts: int | None = None
    draft_tensor: int = 1
    cache_bytes: float = 2.0
    step_tokens: int
    sequences: int
    length: int
    speculative: int = 0
    graphs: bool = True
    sorts: bool = False
    """Whether the sampler sorts all logits for top-p, as vLLM did up to 0.1x."""
    offloaded: int = 0
    """Bytes of weights of each GPU that stay in the host's memory."""

    @property
    def attention_ranks(self) -> int:
        return self.tensor if self.attention is None else self.attention

    @property
    def expert_ranks(self) -> int:
        return self.tensor if self.experts is None else self.experts


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """`fixed` is there before the first request; `sequence` is what one of the asked length
    takes of the cache, `token` what one token does; `draft_token` is the draft's part of it."""

    fixed: tuple[Line, ...]
    outside: Line
    sequence: int
    token: int
    draft_token: int
    draft_weights: int

    @property
    def total(self) -> int:
        """Bytes before any cache, without what stands outside of the runtime's share."""
        return sum(line.amount for line in self.fixed)


def estimate(plan: Plan) -> Estimate:
    """The lines of the fullest rank: the last of a pipeline, which has the output layer."""
    lines = [_weights_line("weights", plan.model, plan)]
    if plan.offloaded:
        offloaded = min(plan.offloaded, lines[0].amount)
        lines.append(Line("offloaded weights", -offloaded, "in the host's memory"))
    draft_weights = 0
    if plan.draft is not None:
        alone = replace(plan, tensor=plan.draft_tensor, pipeline=1, attention=None)
        line = _weights_line("draft weights", plan.draft, alone)
        draft_weights = line.amount
        lines.append(line)
    activations = activation_bytes(plan.model.shape, plan.step_tokens, plan.attention_ranks)
    lines.append(Line("activations", activations, f"a step of {plan.step_tokens} tokens"))
    rows = plan.sequences * (1 + plan.speculative)
    lines.append(_logits_line(plan, rows, activations))
    if max(plan.tensor, plan.expert_ranks) * plan.pipeline > 1:
        lines.append(Line("collectives", _constant("collectives"), "NCCL's buffers, an allowance"))
    if plan.graphs:
        lines.append(Line("CUDA graphs", _constant("graphs"), "an allowance"))
    lines.append(Line("workspace", _constant("workspace"), "of the matrix library"))
    own = _cache(plan.model.shape, plan, plan.attention_ranks, plan.pipeline)
    drafted = _cache(plan.draft.shape, plan, plan.draft_tensor, 1) if plan.draft else (0, 0)
    return Estimate(
        fixed=tuple(lines),
        outside=Line("CUDA context", _constant("context"), "of each process on the GPU"),
        sequence=own[0] + drafted[0],
        token=own[1] + drafted[1],
        draft_token=drafted[1],
        draft_weights=draft_weights,
    )


def _cache(shape: Shape, plan: Plan, tensor: int, pipeline: int) -> tuple[int, int]:
    """Bytes of one sequence of the asked length, and of one token."""
    size = plan.cache_bytes / pipeline
    sequence = kv_elements_of(shape, plan.length, tensor)
    return math.ceil(sequence * size), math.ceil(kv_elements(shape, tensor) * size)


def cache_note(plan: Plan) -> str:
    """How one token's bytes come about, for people to check."""
    shape = plan.model.shape
    size = f"{plan.cache_bytes:g} B"
    layers = f"{shape.layers} layers"
    if shape.kv_rank:
        return f"{layers} x ({shape.kv_rank} + {shape.rope_dim}) x {size}, the same on every rank"
    heads = max(1, math.ceil(shape.kv_heads / plan.attention_ranks))
    note = f"2 x {layers} x {heads} KV heads x {shape.head_dim} x {size}"
    return f"{note} / {plan.pipeline} stages" if plan.pipeline > 1 else note


def _weights_line(what: str, model: Model, plan: Plan) -> Line:
    whole = weight_bytes(model.shape, model.format)
    part = rank_weight_bytes(
        model.shape,
        model.format,
        plan.tensor,
        plan.pipeline,
        attention=plan.attention_ranks,
        experts=plan.expert_ranks,
    )
    count = parameters(model.shape).total / 1e9
    note = f"{count:.2f} billion parameters in {model.format.name}"
    if model.weight_bytes is not None:
        part = round(part * model.weight_bytes / whole)
        note = f"{model.weight_bytes / 1e9:.1f} GB of files"
    ways = plan.tensor * plan.pipeline
    split = f" over {plan.tensor} x {plan.pipeline} GPUs" if ways > 1 else ""
    if model.shape.experts and plan.expert_ranks != plan.tensor:
        split += f", experts over {plan.expert_ranks}"
    return Line(what, part, f"{note}{split}")


def weight_bytes(shape: Shape, number_format: Format) -> int:
    """All weights of a model."""
    return rank_weight_bytes(shape, number_format, 1, 1)


def rank_weight_bytes(
    shape: Shape,
    number_format: Format,
    tensor: int,
    pipeline: int,
    *,
    attention: int | None = None,
    experts: int | None = None,
) -> int:
    """The weights of the fullest rank; `attention` and `experts` are as in `Plan`.

    Matrices are divided by both; embedding and output layer by tensor parallelism, and are on
    different ranks of a pipeline; norms are on every rank; key and value projections of fewer
    heads than ranks are repeated.
    """
    count = parameters(shape)
    plain = float(_HALF) if number_format.covers != "all" else number_format.size
    linear = number_format.size if number_format.covers == "linear" else plain
    expert = number_format.size if number_format.covers == "experts" else linear
    stages = math.ceil(shape.layers / pipeline) / shape.layers
    repeated = 0.0
    ranks = tensor if attention is None else attention
    if not shape.kv_rank and ranks > shape.kv_heads:
        keys = 2 * shape.layers * shape.hidden * shape.kv_heads * shape.head_dim
        repeated = keys * (ranks / shape.kv_heads - 1)
    layers = (count.attention + repeated) * linear / ranks + count.mlp * linear / tensor
    layers += count.experts * expert / (tensor if experts is None else experts)
    ends = max(count.embedding, count.head) if pipeline > 1 else count.embedding + count.head
    return math.ceil(layers * stages + ends * plain / tensor + count.norms * stages * _HALF)


def activation_bytes(shape: Shape, tokens: int, tensor: int) -> int:
    """The most that a step of so many tokens holds at once between two layers.

    Residual and normed input of the layer, and the wider of its halves: gate, up and their
    product in the MLP (for experts, of every chosen one, and each one's output); or query, key,
    value and the attention's output. TensorRT-LLM's measured coefficients
    (ai-dynamo/aiconfigurator, `_get_memory_usage`) come to the same within a fifth.
    """
    beside = 2 * shape.hidden
    if shape.kv_rank:
        query = shape.heads * (shape.nope_dim + shape.rope_dim)
        attention = (2 * query + shape.heads * (shape.nope_dim + 2 * shape.v_dim)) / tensor
    else:
        attention = (2 * shape.heads + 2 * shape.kv_heads) * shape.head_dim / tensor
    mlp = 3 * shape.mlp / tensor if shape.dense or not shape.experts else 0.0
    if shape.experts:
        chosen = shape.active * (3 * shape.expert / tensor + shape.hidden)
        mlp = max(mlp, chosen + 3 * shape.shared / tensor)
    return math.ceil(tokens * _HALF * (beside + max(attention, mlp)))


def logits_bytes(vocab: int, rows: int, *, sort: bool) -> int:
    """Logits of a step, their float32 copy, probabilities, and a sort for top-p and top-k.

    The sort comes before the probabilities, and is gone by then: the larger of both counts.
    """
    first = _constant("logits") + _constant("logits-float32")
    after = _constant("logits-probabilities")
    return rows * vocab * (first + (max(_constant("logits-sort"), after) if sort else after))


def _logits_line(plan: Plan, rows: int, activations: int) -> Line:
    """What the sampler needs beyond the activations' room, which is free again by then."""
    whole = logits_bytes(plan.model.shape.vocab, rows, sort=plan.sorts)
    each = f"{plan.sequences} x (1 + {plan.speculative})" if plan.speculative else f"{rows}"
    sort = ", sorted" if plan.sorts else ""
    note = f"{each} rows of {plan.model.shape.vocab}{sort}: {whole / 2**30:.2f} GiB"
    if whole <= activations:
        return Line("logits and sampling", 0, f"{note}, in the activations' room")
    return Line("logits and sampling", whole - activations, f"{note}, less the activations' room")


class _Row(NamedTuple):
    name: str
    kind: str
    value: float
    covers: str
    names: Any
    until: str


@cache
def _rows() -> tuple[_Row, ...]:
    rows: Mapping[str, Mapping[str, Any]] = load_table(rules_path() / "compat" / "memory.yml").rows
    return tuple(
        _Row(
            row["name"],
            row["kind"],
            row["value"],
            row.get("covers", "all"),
            compile_re2(row.get("names", "")),
            row.get("until", ""),
        )
        for row in rows.values()
    )


def _constant(name: str) -> int:
    return int(next(row.value for row in _rows() if row.name == name))


def sorts(runtime: str, version: Sequence[int]) -> bool:
    """Whether the runtime's sampler sorts all logits in this version; not where it is not known."""
    until = next(
        (row.until for row in _rows() if (row.kind, row.name) == ("sort", f"{runtime}-sort")), ""
    )
    return bool(version) and bool(until) and tuple(version) < numbers(until)


def share(runtime: str) -> float | None:
    """The runtime's default share of memory (`vllm`: of all; `trtllm`: of what is left)."""
    return next((row.value for row in _rows() if (row.kind, row.name) == ("share", runtime)), None)


def weight_format(name: str) -> Format:
    """The format that a name tells: `NVFP4`, `awq`, `fp8`, a whole model's name; bf16 if none."""
    found = next(row for row in _rows() if row.kind == "weights" and row.names.search(name.lower()))
    return Format(found.name, found.value, found.covers)


def cache_size(name: str) -> float:
    """Bytes of an element of a KV cache of this type; bf16 for `auto`."""
    return next(
        row.value for row in _rows() if row.kind == "cache" and row.names.search(name.lower())
    )


class Pool(NamedTuple):
    """Room for the cache on a GPU of `memory` bytes, negative where not even weights fit.

    `limit` is what the runtime lets itself use, `slack` what stays free beside that.
    """

    room: int
    limit: int
    slack: int


def pool(
    estimate_: Estimate, runtime: str, memory: int, part: float | None, cache: int | None = None
) -> Pool:
    """The cache's room as each runtime computes it; `cache` is its size where that is given.

    `memory` is what the driver reports, a part of which it keeps for itself.

    vLLM: a share of the whole GPU, less all that is fixed (`gpu_memory_utilization`).
    TensorRT-LLM: a share of what is left after all that (`free_gpu_memory_fraction`).
    SGLang: a share of what is free before loading, for weights and cache (`mem_fraction_static`);
    the rest must do for activations and graphs.
    """
    memory -= _constant("reserved")
    given = part if part is not None else share(runtime) or 1.0
    fixed = estimate_.total
    if runtime == "trtllm":
        left = memory - estimate_.outside.amount - fixed
        room = math.floor(left * given) if left > 0 else left
        return Pool(room, fixed + room, memory - fixed - room)
    if cache is not None:
        # vLLM, --kv-cache-memory-bytes: the share does not count, the GPU's memory still does.
        left = memory - estimate_.outside.amount - fixed
        return Pool(min(cache, left), min(fixed + cache, memory), left - cache)
    if runtime == "sglang":
        lines = estimate_.fixed
        weights = sum(line.amount for line in lines if "weights" in line.what)
        buffers = sum(line.amount for line in lines if line.what == "collectives")
        free = memory - estimate_.outside.amount - buffers
        limit = math.floor(free * given)
        beside = free - limit - (fixed - weights - buffers)
        return Pool(limit - weights + min(0, beside), limit, max(0, beside))
    limit = math.floor(memory * given)
    return Pool(limit - fixed, limit, memory - limit - estimate_.outside.amount)
