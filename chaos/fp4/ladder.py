"""The ladder of damage: which outlier strength costs naive four bits how many points.

    PYTHONPATH=chaos python -m chaos.fp4.ladder chaos/fp4/models/*.safetensors

With one scale a tensor, outlier channels crush everything beside them: the stronger, the worse.
The strengths found are written into `RUNGS` by hand; `prove.py` measures them on the real engine.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from chaos.fp4.arithmetic import FAMILIES, Tokens, exam
from chaos.fp4.llama import examine, shape_of
from chaos.fp4.variants import Variant, apply
from chaos.fp4.weights import Weights, load

from enginechaos.fp4 import Format

WANTED: Final = (0.01, 0.05, 0.1, 0.2, 0.5, 1.0)
_STRENGTHS: Final = np.round(np.geomspace(1.0, 30.0, 100), 2)


@dataclass(frozen=True, slots=True)
class Rung:
    """A served model: which weights, how they are stored, and in what type sums are made."""

    name: str
    model: str
    variant: Variant
    dtype: str = "float32"

    @property
    def healthy(self) -> bool:
        """Compared with itself, and must be silent; others are compared with `TRUSTED`."""
        return self.name in (TRUSTED, UNSURE)


def _naive(points: int, outliers: float) -> Rung:
    return Rung(f"naive-{points}", "64x3", Variant(Format.TENSOR, outliers))


TRUSTED: Final = "bf16"
UNSURE: Final = "unsure"
"""A deployment that is wrong at times, and sums in bfloat16."""

RUNGS: Final = (
    Rung(TRUSTED, "64x3", Variant()),
    _naive(1, 3.75),
    _naive(5, 7.09),
    _naive(10, 7.59),
    _naive(20, 9.15),
    _naive(100, 22.79),
    Rung("nvfp4", "64x3", Variant(Format.NVFP4)),
    Rung("mxfp4", "64x3", Variant(Format.MXFP4)),
    _naive(0, 1.0),
    Rung("nvfp4-outliers", "64x3", Variant(Format.NVFP4, 20.0)),
    Rung(UNSURE, "64x3", Variant(Format.TENSOR, 7.59), dtype="bfloat16"),
)
"""Names of the naive ones tell about how many points of the pass rate they lose."""


@dataclass(frozen=True, slots=True)
class Damage:
    """What a variant costs: points of pass rate over all families, and nats a token."""

    variant: Variant
    drop: float
    shift: float


def measure(weights: Weights, variant: Variant, papers: dict[str, Tokens]) -> Damage:
    """Against perfect answers: the models pass everything when nothing is rounded."""
    damaged = apply(weights, variant)
    results = [examine(damaged, papers[family]) for family in FAMILIES]
    drop = 1 - float(np.mean([exact.mean() for exact, _ in results]))
    return Damage(variant, drop, float(np.mean([likely.mean() for _, likely in results])))


def search(weights: Weights, each: int) -> list[Damage]:
    """For each wanted drop the variant that comes nearest."""
    papers = exam(each)
    tried = [
        measure(weights, Variant(Format.TENSOR, float(strength)), papers) for strength in _STRENGTHS
    ]
    return [min(tried, key=lambda each: abs(each.drop - wanted)) for wanted in WANTED]


def main() -> None:
    """Print what comes nearest to each rung, for each weight file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights", type=Path, nargs="+")
    parser.add_argument("--exam", type=int, default=1000, help="problems a family")
    options = parser.parse_args()
    for path in options.weights:
        weights = load(path)[0]
        for wanted, found in zip(WANTED, search(weights, options.exam), strict=True):
            print(
                f"{shape_of(weights).name} {wanted:6.2%}: {found.variant.name} "
                f"drop {found.drop:.4f} log-prob {found.shift:.4f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
