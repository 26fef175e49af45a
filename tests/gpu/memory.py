"""Preflight's memory sums against a real GPU: a model of random weights, its cache, a step.

A Llama-shaped model is filled with random bf16 weights, a KV cache for a batch is reserved,
a step of prompts is computed, and the tokens of a speculative batch are sampled, each in the
way that engines do. What PyTorch and the driver say was taken is put beside the estimate,
line by line. Exits with the number of lines that are off by more than 10%; the allowances for
context and workspace are told and count only in the sum.

    python3 -m tests.gpu.memory --out DIR               on a machine with a GPU and PyTorch
    python3 -m tests.gpu.memory --out DIR --pretend     on the CPU, tiny: does it run at all
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - its customary name

from enginewatch.preflight.memory import Model, Plan, estimate, logits_bytes, weight_format
from enginewatch.preflight.shapes import Shape, parameters, shape_of_name

_TOLERANCE = 0.10
_SMALL = 0.01
"""Of the sum: a line that is less of it decides nothing, and is shown only. A sort of few rows has
a working space of its own."""
_GIBI = 2**30
_ALLOWED = ("CUDA context", "workspace")
"""Lines that are allowances: told beside what is real, and not judged."""
_NORM_ROWS = 256
"""Rows that a norm is computed for at once, as a fused kernel does: no copy of all in float32."""


class Case(NamedTuple):
    name: str
    shape: Shape
    batch: int
    length: int
    step: int
    speculative: int


class Gauge:
    """What PyTorch has allocated and the driver has given away; nothing on the CPU."""

    def __init__(self, *, real: bool):
        self.real = real
        self.device = "cuda" if real else "cpu"
        self.once: dict[str, int] = {}

    def settle(self) -> None:
        gc.collect()
        if self.real:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()

    def now(self) -> int:
        return torch.cuda.memory_allocated() if self.real else 0

    def peak(self) -> int:
        if not self.real:
            return 0
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated()

    def reserved(self) -> int:
        return torch.cuda.max_memory_reserved() if self.real else 0

    def driver_used(self) -> int:
        """Of the whole GPU, by the driver; needs no context of this process."""
        if not self.real:
            return 0
        import pynvml

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        try:
            used = int(pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2).used)
        except (TypeError, AttributeError):
            used = int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)
        pynvml.nvmlShutdown()
        return used


class Layer:
    """The matrices of one decoder layer, bf16."""

    def __init__(self, shape: Shape, device: str):
        heads, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        self.qkv = _random(heads + 2 * keys, shape.hidden, device)
        self.out = _random(shape.hidden, heads, device)
        self.gate_up = _random(2 * shape.mlp, shape.hidden, device)
        self.down = _random(shape.hidden, shape.mlp, device)
        self.norms = torch.ones(2, shape.hidden, dtype=torch.bfloat16, device=device)


def _random(rows: int, columns: int, device: str) -> torch.Tensor:
    return torch.empty(rows, columns, dtype=torch.bfloat16, device=device).normal_(std=0.02)


def norm(hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """RMS norm into one new tensor, in pieces."""
    result = torch.empty_like(hidden)
    for start in range(0, hidden.shape[0], _NORM_ROWS):
        rows = hidden[start : start + _NORM_ROWS].float()
        scale = torch.rsqrt(rows.pow(2).mean(-1, keepdim=True) + 1e-5)
        result[start : start + _NORM_ROWS] = (rows * scale).to(hidden.dtype) * weight
    return result


def attention(layer: Layer, shape: Shape, normed: torch.Tensor, prompts: int) -> torch.Tensor:
    """Causal attention of prompts of equal length, one after the other into one output."""
    tokens = normed.shape[0]
    qkv = normed @ layer.qkv.T
    heads, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    output = torch.empty(tokens, heads, dtype=normed.dtype, device=normed.device)
    each = tokens // prompts
    for start in range(0, tokens, each):
        query, key, value = qkv[start : start + each].split([heads, keys, keys], dim=-1)
        part = F.scaled_dot_product_attention(
            query.view(1, each, shape.heads, shape.head_dim).transpose(1, 2),
            key.view(1, each, shape.kv_heads, shape.head_dim).transpose(1, 2),
            value.view(1, each, shape.kv_heads, shape.head_dim).transpose(1, 2),
            is_causal=True,
            enable_gqa=True,
        )
        output[start : start + each] = part.transpose(1, 2).reshape(each, heads)
    return output


@torch.inference_mode()
def step(layers: list[Layer], shape: Shape, hidden: torch.Tensor, prompts: int) -> torch.Tensor:
    """One step over all tokens; the residual is added to in place, as fused kernels do."""
    for layer in layers:
        normed = norm(hidden, layer.norms[0])
        mixed = attention(layer, shape, normed, prompts)
        del normed
        hidden.add_(mixed @ layer.out.T)
        del mixed
        normed = norm(hidden, layer.norms[1])
        gate_up = normed @ layer.gate_up.T
        gate, up = gate_up.split(shape.mlp, dim=-1)
        product = F.silu(gate).mul_(up)
        del gate, up, gate_up, normed
        hidden.add_(product @ layer.down.T)
        del product
    return hidden


@torch.inference_mode()
def sample(hidden: torch.Tensor, head: torch.Tensor, *, sort: bool) -> torch.Tensor:
    """Logits, their float32 copy, probabilities; with a sort where top-p asks for one."""
    logits = hidden @ head.T
    wide = logits.float()
    if sort:
        ordered, places = wide.sort(dim=-1, descending=False)
        ordered.softmax(dim=-1).cumsum_(dim=-1)
        del ordered, places
    return wide.softmax(dim=-1).argmax(dim=-1)


def measure(case: Case, gauge: Gauge) -> dict[str, int]:
    """Bytes that were really taken, by line."""
    found: dict[str, int] = {}
    before = gauge.driver_used()
    torch.zeros(1, device=gauge.device)
    gauge.settle()
    found["CUDA context"] = gauge.driver_used() - before
    start = gauge.now()
    torch.ones(64, 64, dtype=torch.bfloat16, device=gauge.device) @ torch.ones(
        64, 64, dtype=torch.bfloat16, device=gauge.device
    )
    gauge.settle()
    found["workspace"] = gauge.now() - start
    for name in _ALLOWED:  # taken once a process, by its first case
        found[name] = gauge.once.setdefault(name, found[name])
    start = gauge.now()
    shape = case.shape
    layers = [Layer(shape, gauge.device) for _ in range(shape.layers)]
    embedding = _random(shape.vocab, shape.hidden, gauge.device)
    head = embedding if shape.tied else _random(shape.vocab, shape.hidden, gauge.device)
    gauge.settle()
    found["weights"] = gauge.now() - start
    start = gauge.now()
    slots = case.batch * case.length
    cache = [
        torch.zeros(
            2, slots, shape.kv_heads, shape.head_dim, dtype=torch.bfloat16, device=gauge.device
        )
        for _ in layers
    ]
    gauge.settle()
    found["KV cache"] = gauge.now() - start
    start = gauge.now()
    tokens = torch.randint(0, shape.vocab, (case.step,), device=gauge.device)
    hidden = step(layers, shape, embedding[tokens], prompts=4)
    found["activations"] = gauge.peak() - start
    rows = case.batch * (1 + case.speculative)
    chosen = hidden[torch.arange(rows, device=gauge.device) % case.step].clone()
    del hidden, tokens
    for name, sort in (("logits", False), ("logits and sort", True)):
        gauge.settle()
        start = gauge.now()
        sample(chosen, head, sort=sort)
        found[name] = gauge.peak() - start
    del chosen
    found["all, allocated"] = gauge.now()
    found["all, by the driver"] = gauge.driver_used() - before
    del layers, embedding, head, cache
    gauge.settle()
    return found


def expected(case: Case) -> dict[str, int]:
    """The same lines by preflight."""
    plan = Plan(
        model=Model(shape=case.shape, format=weight_format("bf16")),
        step_tokens=case.step,
        sequences=case.batch,
        length=case.length,
        speculative=case.speculative,
        graphs=False,
        sorts=True,
    )
    sums = estimate(plan)
    lines = {line.what: line.amount for line in sums.fixed}
    rows = case.batch * (1 + case.speculative)
    whole = logits_bytes(case.shape.vocab, rows)
    peak = lines["activations"] + lines["logits and sampling"]
    return {
        "CUDA context": sums.outside.amount,
        "workspace": lines["workspace"],
        "weights": lines["weights"],
        "KV cache": case.batch * sums.sequence,
        "activations": lines["activations"],
        "logits": logits_bytes(case.shape.vocab, rows, sort=False),
        "logits and sort": whole,
        "all": sums.total + sums.outside.amount + case.batch * sums.sequence,
        "step": peak,
    }


def compare(case: Case, gauge: Gauge) -> dict[str, Any]:
    began = time.time()
    real, ours = measure(case, gauge), expected(case)
    steps = max(real["activations"], real["logits and sort"])
    real["step"] = steps
    # What the process holds at its peak: context, workspace, weights, cache, and the larger
    # of the two halves of a step, as PyTorch gives the one's memory to the other.
    real["all"] = sum(
        real[name] for name in ("CUDA context", "workspace", "weights", "KV cache", "step")
    )
    rows = []
    for name, wanted in ours.items():
        off = wanted / real[name] - 1 if real[name] else 0.0
        decides = wanted > _SMALL * ours["all"] and name not in _ALLOWED
        good = abs(off) <= _TOLERANCE or not decides or not gauge.real
        rows.append(
            {"line": name, "estimate": wanted, "real": real[name], "off": off, "good": good}
        )
        print(
            f"{'ok  ' if good else 'OFF '} {name:18} estimate {wanted / _GIBI:8.3f} GiB   "
            f"real {real[name] / _GIBI:8.3f} GiB   {off:+.1%}",
            flush=True,
        )
    return {
        "case": case.name,
        "parameters": parameters(case.shape).total,
        "batch": case.batch,
        "length": case.length,
        "step_tokens": case.step,
        "speculative": case.speculative,
        "rows": rows,
        "other": {name: value for name, value in real.items() if name not in ours},
        "seconds": time.time() - began,
    }


def cases(*, pretend: bool) -> list[Case]:
    eight, one = shape_of_name("Llama-3.1-8B"), shape_of_name("Llama-3.2-3B")
    if eight is None or one is None:
        sys.exit("rules/compat/models.yml lacks the models of this test")
    if pretend:
        tiny = replace(
            eight, hidden=64, layers=2, heads=4, kv_heads=2, head_dim=16, mlp=128, vocab=99
        )
        return [Case("tiny", tiny, 2, 16, 64, 3)]
    return [
        Case("Llama 3.1 8B, 256 sequences, 5 drafted tokens", eight, 256, 2048, 8192, 5),
        Case("Llama 3.1 8B, 64 sequences, no speculation, 16k step", eight, 64, 4096, 16384, 0),
        Case("Llama 3.2 3B, 128 sequences, 3 drafted tokens", one, 128, 2048, 8192, 3),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python3 -m tests.gpu.memory", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("gpu-check-out"))
    parser.add_argument("--pretend", action="store_true", help="on the CPU, with a tiny model")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    gauge = Gauge(real=not given.pretend)
    found = []
    for case in cases(pretend=given.pretend):
        print(f"{case.name}:", flush=True)
        found.append(compare(case, gauge))
    device = torch.cuda.get_device_name(0) if gauge.real else "cpu"
    saved = {"device": device, "torch": torch.__version__, "cases": found}
    (given.out / "memory.json").write_text(json.dumps(saved, indent=1))
    sys.exit(sum(not row["good"] for case in found for row in case["rows"]))


if __name__ == "__main__":
    main()
