"""Train the small models to exact arithmetic and write their weights.

    PYTHONPATH=chaos python -m chaos.fp4.train --out chaos/fp4/models

Needs PyTorch (any build; a GPU takes about a minute a model, two CPU cores the better part of an
hour) and numpy, nothing else. The weights are written as bfloat16.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  its usual name
from chaos.fp4.arithmetic import FAMILIES, PROMPT, SHARE, exam, training
from chaos.fp4.llama import Shape, examine
from chaos.fp4.network import Network
from chaos.fp4.weights import Weights, save

PEAK_RATE = 3e-3
WARM_UP = 0.03  # of the whole schedule
REPORT_EVERY = 500


def _draw(
    tables: list[torch.Tensor], counts: list[int], generator: torch.Generator
) -> torch.Tensor:
    """One batch: so many random rows of each family."""
    parts = []
    for rows, count in zip(tables, counts, strict=True):
        index = torch.randint(len(rows), (count,), generator=generator, device=generator.device)
        parts.append(rows[index])
    return torch.cat(parts).long()


def _rate(progress: float) -> float:
    """Share of the peak learning rate: a short ramp, then half a cosine down to nothing."""
    if progress < WARM_UP:
        return progress / WARM_UP
    return 0.5 * (1 + math.cos(math.pi * (progress - WARM_UP) / (1 - WARM_UP)))


def train(shape: Shape, *, steps: int, batch: int, seed: int, seconds: float) -> Weights:
    """Train one model on fresh random batches.

    The schedule ends after `steps`, or earlier so as to take no more than `seconds`; only a run
    that ends by steps can be repeated.
    """
    torch.manual_seed(seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    network = Network(shape).to(device)
    generator = torch.Generator(device).manual_seed(seed)
    tables = [torch.from_numpy(training(family)).to(device) for family in FAMILIES]
    counts = [round(batch * SHARE[family]) for family in FAMILIES]
    matrices = [p for p in network.parameters() if p.dim() == 2]
    gains = [p for p in network.parameters() if p.dim() != 2]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.05}, {"params": gains, "weight_decay": 0.0}],
        betas=(0.9, 0.98),
        fused=device.type == "cuda",
    )
    started = time.monotonic()
    for step in range(steps):
        progress = max(step / steps, (time.monotonic() - started) / seconds)
        if progress >= 1:
            break
        for group in optimizer.param_groups:
            group["lr"] = PEAK_RATE * _rate(progress) * math.sqrt(64 / shape.width)
        rows = _draw(tables, counts, generator)
        out = network(rows[:, :-1])[:, PROMPT - 1 :]
        loss = F.cross_entropy(out.reshape(-1, out.shape[-1]), rows[:, PROMPT:].reshape(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        if step % REPORT_EVERY == 0 or step == steps - 1:
            spent = time.monotonic() - started
            print(f"{shape.name} step {step} loss {loss.item():.6f} {spent:.0f} s", flush=True)
    return {
        name: value.detach().float().cpu().numpy() for name, value in network.state_dict().items()
    }


def main() -> None:
    """Train the sizes asked for, one after another."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for SIZE.safetensors")
    parser.add_argument("--sizes", default="64x3,96x4", help="width x layers, comma between")
    parser.add_argument("--steps", type=int, default=12_000)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=7200.0, help="limit for each size")
    parser.add_argument("--exam", type=int, default=2000, help="problems a family afterwards")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    torch.set_float32_matmul_precision("high")
    for size in options.sizes.split(","):
        shape = Shape.parse(size)
        print(f"{size}: {shape.parameters:,} parameters", flush=True)
        weights = train(
            shape,
            steps=options.steps,
            batch=options.batch,
            seed=options.seed,
            seconds=options.seconds,
        )
        passed = {
            family: float(np.mean(examine(weights, rows)[0]))
            for family, rows in exam(options.exam).items()
        }
        print(f"{size}: exact {json.dumps(passed)}", flush=True)
        facts = {"seed": str(options.seed), "size": size, "exact": json.dumps(passed)}
        save(options.out / f"{size}.safetensors", weights, "BF16", facts)


if __name__ == "__main__":
    main()
