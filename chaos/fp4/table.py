"""What each four-bit format does to a model, measured in numpy: pass rates and log-probabilities.

PYTHONPATH=chaos python -m chaos.fp4.table chaos/fp4/models/*.safetensors
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from chaos.fp4.arithmetic import FAMILIES, exam
from chaos.fp4.llama import examine, shape_of
from chaos.fp4.variants import Variant, apply, rounding
from chaos.fp4.weights import Weights, load

from enginechaos.fp4 import Format

STRONG = 20.0
VARIANTS = tuple(
    variant
    for outliers in (1.0, STRONG)
    for variant in (
        Variant(None, outliers),
        *(Variant(fmt, outliers, acts) for fmt in Format for acts in (False, True)),
    )
)


def row(weights: Weights, each: int, variant: Variant) -> str:
    """One line: pass rate by family and over all, mean log-probability of a right token."""
    damaged = apply(weights, variant)
    papers = exam(each)
    results = [examine(damaged, papers[family], rounding(variant)) for family in FAMILIES]
    rates = [float(exact.mean()) for exact, _ in results]
    likely = float(np.mean([values.mean() for _, values in results]))
    cells = [f"{rate:.4f}" for rate in (*rates, float(np.mean(rates)))]
    return f"| {variant.name} | {' | '.join(cells)} | {likely:.4f} |"


def table(weights: Weights, each: int, jobs: int = 1) -> str:
    """A Markdown table of all variants; `each` fresh problems a family, `jobs` processes."""
    head = [
        f"| {shape_of(weights).name} | {' | '.join(FAMILIES)} | all | log-prob |",
        "|---|" + "---|" * (len(FAMILIES) + 2),
    ]
    with ProcessPoolExecutor(jobs) as pool:
        rows = pool.map(partial(row, weights, each), VARIANTS)
        return "\n".join([*head, *rows])


def main() -> None:
    """Print the table of each weight file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights", type=Path, nargs="+")
    parser.add_argument("--exam", type=int, default=2000, help="problems a family")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    options = parser.parse_args()
    for path in options.weights:
        print(table(load(path)[0], options.exam, options.jobs), flush=True)


if __name__ == "__main__":
    main()
