"""Each launch with all that is known of it: model, draft, GPUs, step, batch and length.

The memory and the prefill check ask the same questions of the inputs; they are answered here
once. What is not known is None, and `missing` says what.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from enginewatch.evidence.tables import load_table
from enginewatch.model import compile_re2
from enginewatch.preflight.devices import shipped_devices
from enginewatch.preflight.facts import Facts
from enginewatch.preflight.memory import Model, sorts, weight_format
from enginewatch.preflight.models import checkpoint_of, launches_of, model_of
from enginewatch.preflight.readers.demand import Demand, combined
from enginewatch.preflight.readers.gpus import Gpus
from enginewatch.preflight.readers.launch import Launch
from enginewatch.preflight.release import release_of
from enginewatch.preflight.shapes import Shape, shape_of_name
from enginewatch.rulepack import rules_path

_GIBI = 2**30
_NO_WEIGHTS = frozenset({"ngram", "suffix", "prompt_lookup", "lookahead", "medusa", "[ngram]"})
"""Methods of speculation that load no second model."""
_NEEDED = frozenset(
    {"model", "draft_model", "tensor_parallel", "pipeline_parallel", "data_parallel",
     "max_num_seqs", "max_num_batched_tokens", "max_model_len", "speculative", "speculative_tokens",
     "gpu_memory_utilization", "free_gpu_memory_fraction", "mem_fraction_static", "kv_cache_dtype",
     "quantization"}
)  # fmt: skip
"""Settings without which no sum is worth anything, where a command has them from outside."""
_OUTSIDE = frozenset({"config_missing", "config_invalid", "words_unknown"})
"""Problems of a command that may have any setting in what could not be read."""
_MIG = re.compile(r"/mig-\d+g\.(\d+)gb")
"""A MIG profile tells its memory (NVIDIA MIG user guide)."""
_ONE_LAYER = re.compile(r"mtp|eagle|nextn", re.IGNORECASE)
"""Methods whose draft is one layer of the model's own width (and shares its embedding)."""


class Step(NamedTuple):
    """The scheduler's limits, and whether the command gives them or the runtime does."""

    tokens: int
    sequences: int
    tokens_given: bool
    sequences_given: bool


class Layout(NamedTuple):
    """How many GPUs share attention and experts, how many caches there are, and all GPUs."""

    attention: int
    experts: int
    caches: int
    gpus: int


def layout_of(launch: Launch) -> Layout:
    """vLLM's data parallelism repeats the attention and spreads the experts over all ranks
    (fused_moe/config.py); in SGLang and TensorRT-LLM data-parallel attention splits the GPUs of
    tensor parallelism instead of adding some."""
    tensor, data = launch.count("tensor_parallel"), launch.count("data_parallel")
    pipeline = launch.count("pipeline_parallel")
    if launch.value("attention_data_parallel") is True:
        caches = tensor if launch.runtime == "trtllm" else min(data, tensor)
        return Layout(max(1, tensor // caches), tensor, caches, tensor * pipeline)
    experts = tensor * data if launch.runtime == "vllm" else tensor
    return Layout(tensor, experts, data, tensor * pipeline * data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A launch on one kind of GPU. `memory` is bytes of one GPU.

    `length` is the longest request that the engine will take, None where nobody says it. `cache`
    is the type of the KV cache: as the command says, else as the checkpoint does; empty if neither.
    `sorts` is whether this version's sampler sorts all logits.
    """

    launch: Launch
    model: Model | None
    draft: Model | None
    gpus: Gpus | None
    memory: int | None
    step: Step | None
    speculative: int
    length: int | None
    cache: str
    sorts: bool
    demand: Demand | None
    missing: tuple[str, ...] = ()

    @property
    def is_told(self) -> bool:
        """Whether every setting that the sums need is one that is known here."""
        return all(map(self.launch.is_told, _NEEDED))

    @property
    def labels(self) -> dict[str, str]:
        """Of the samples that are about it."""
        return {
            "launch": self.launch.where,
            "model": self.name,
            "gpu": self.gpus.model if self.gpus else "",
            "runtime": self.launch.runtime,
        }

    @property
    def name(self) -> str:
        """The model as the command names it."""
        return self.launch.text("model") or "the model"

    @property
    def world(self) -> int:
        """GPUs that share a layer or a pipeline."""
        launch = self.launch
        return launch.count("tensor_parallel") * launch.count("pipeline_parallel")

    @property
    def layout(self) -> Layout:
        """How its GPUs share the model."""
        return layout_of(self.launch)


def served(facts: Facts) -> Iterator[Served]:
    """Every launch of a server, on every kind of GPU that is declared."""
    demand = combined(facts.demands)
    for launch in launches_of(facts):
        if launch.builds or launch.runtime == "triton":
            continue
        for gpus in facts.gpus or (None,):
            yield _served(launch, gpus, demand, facts)


def _served(launch: Launch, gpus: Gpus | None, demand: Demand | None, facts: Facts) -> Served:
    memory = _memory(launch, gpus)
    told = launch.text("quantization") or launch.text("dtype")
    model = _by_files(launch.text("model"), "model", facts) or _model(launch.text("model"), told)
    draft_name = launch.text("draft_model")
    draft = None
    if draft_name or _ONE_LAYER.search(launch.text("speculative_method")):
        draft = _by_files(draft_name, "draft", facts) or _model(
            draft_name, launch.text("draft_quantization")
        )
        if draft is None and model is not None and _is_one_layer(launch):
            draft = _one_layer(model)
    speculative = int(launch.number("speculative_tokens") or 0)
    missing = [
        f"the value of {given.by}"
        for name, given in launch.settings.items()
        if given.value is None and name in _NEEDED
    ]
    missing += [
        f"what {problem.text} sets" for problem in launch.problems if problem.kind in _OUTSIDE
    ]
    if model is None and launch.is_told("model"):
        missing.append(f"the shape of {launch.text('model') or 'a model that the command names'}")
    if draft_name and draft is None:
        missing.append(f"the shape of the draft {draft_name}")
    if not launch.runtime:
        missing.append("the runtime that serves it (--command, or --runtime vllm=0.11.0)")
    if gpus is None:
        missing.append("the GPUs")
    elif memory is None:
        part = "the part that the container gets of " if _shares(launch) else ""
        missing.append(f"the memory of {part}{gpus.model}")
    length = launch.number("max_model_len")
    longest = int(length) if length else (model.shape.length if model else 0)
    return Served(
        launch=launch,
        model=model,
        draft=draft,
        gpus=gpus,
        memory=memory,
        step=_step(launch, gpus, memory),
        speculative=speculative,
        length=longest or None,
        cache=_cache(launch, facts),
        sorts=sorts(launch.runtime, release_of(launch, facts)),
        demand=demand,
        missing=tuple(missing),
    )


def _cache(launch: Launch, facts: Facts) -> str:
    given = launch.text("kv_cache_dtype")
    if given not in {"", "auto"}:
        return given
    checkpoint = checkpoint_of(launch.text("model"), "model", facts)
    quantization = checkpoint.quantization if checkpoint else None
    return quantization.kv_cache if quantization else ""


def _memory(launch: Launch, gpus: Gpus | None) -> int | None:
    """Bytes of what the launch gets of one GPU: a part of it where its container asks for one."""
    part = _MIG.search(launch.container.gpu_resource) if launch.container else None
    if part is not None:
        return int(part[1]) * _GIBI
    return gpu_memory(gpus) if gpus and not _shares(launch) else None


def _shares(launch: Launch) -> bool:
    """Whether others use the same GPU, in turns (NVIDIA's device plugin, time-slicing)."""
    return launch.container is not None and launch.container.gpu_resource.endswith(".shared")


def gpu_memory(gpus: Gpus) -> int | None:
    """Bytes of one GPU: as the driver says, else by the model's name."""
    if gpus.memory is not None:
        return gpus.memory
    known = shipped_devices().named(gpus.model)
    return int(known.memory) if known is not None and known.memory is not None else None


def loads_draft(launch: Launch) -> bool:
    """Whether the method of speculation loads weights of a second model."""
    return launch.text("speculative_method").lower() not in _NO_WEIGHTS


def _is_one_layer(launch: Launch) -> bool:
    """By the method's name, or by that of the draft (`…-EAGLE3-…`)."""
    words = f"{launch.text('speculative_method')} {launch.text('draft_model')}"
    return _ONE_LAYER.search(words) is not None


def _one_layer(model: Model) -> Model:
    """A layer of the model, without embedding and output layer: what an EAGLE head or an MTP layer
    comes to, and what its cache is."""
    layer = replace(
        model.shape, name="one layer", layers=1, dense=0, vocab=1, tied=True, mtp=0, local=0
    )
    return Model(shape=layer, format=model.format)


def _by_files(name: str, role: str, facts: Facts) -> Model | None:
    found = checkpoint_of(name, role, facts)
    return model_of(found) if found is not None else None


def _model(name: str, number_format: str) -> Model | None:
    shape = shape_of_name(name) if name else None
    if shape is None:
        return None
    told = number_format if number_format not in {"", "auto", "modelopt"} else ""
    return Model(shape=shape, format=weight_format(told or _told_by_name(name, shape)))


def _told_by_name(name: str, shape: Shape) -> str:
    """A checkpoint's format where only its name is known: models that come quantized, too."""
    last = PurePosixPath(name.rstrip("/")).name
    if shape.name.startswith("openai/gpt-oss"):
        return "mxfp4"
    if shape.name == "deepseek-ai/DeepSeek-V3" and weight_format(last).name == "bf16":
        return "fp8_block"
    return last


def _step(launch: Launch, gpus: Gpus | None, memory: int | None) -> Step | None:
    tokens = launch.number("max_num_batched_tokens")
    sequences = launch.number("max_num_seqs")
    default = _default_step(launch.runtime, gpus, memory)
    if (tokens is None or sequences is None) and default is None:
        return None
    return Step(
        int(tokens) if tokens else default.tokens if default else 0,
        int(sequences) if sequences else default.sequences if default else 0,
        tokens is not None,
        sequences is not None,
    )


class _Default(NamedTuple):
    runtime: str
    above: float
    unless: Any
    tokens: int
    sequences: int


@cache
def _defaults() -> tuple[_Default, ...]:
    rows: Any = load_table(rules_path() / "compat" / "step_defaults.yml").rows.values()
    return tuple(
        _Default(
            row["runtime"],
            row["above"],
            compile_re2(row["except"]) if row.get("except") else None,
            row["tokens"],
            row.get("sequences", 0),
        )
        for row in rows
    )


def _default_step(runtime: str, gpus: Gpus | None, memory: int | None) -> _Default | None:
    """By the GPU; without one only where the runtime's default is the same on all."""
    rows = [row for row in _defaults() if row.runtime == runtime]
    if memory is None or gpus is None:
        return rows[0] if len(rows) == 1 else None
    name = gpus.model.lower()
    fitting = [
        row
        for row in rows
        if memory >= row.above * _GIBI and not (row.unless and row.unless.search(name))
    ]
    return max(fitting, key=lambda row: row.above, default=None)
