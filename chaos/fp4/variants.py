"""Damaged copies of a model: four-bit rounding of its matrices, with outlier channels or without.

All variants are functions of the trained weights, so only those are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from chaos.fp4.llama import Rounding, linear_names, shape_of
from chaos.fp4.weights import Weights, from_bfloat16, to_bfloat16

from enginechaos.fp4 import Format, round_trip

OUTLIER_ROWS = 3


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to store a model: a format (None is bfloat16) and how strong its outliers are.

    `outliers` multiplies three rows of each up projection and divides the matching columns of the
    down projection: the same function in full precision, and channels like those that trained
    large models have. 1 leaves the model as it is.
    """

    format: Format | None = None
    outliers: float = 1.0
    activations: bool = False

    @property
    def name(self) -> str:
        kind = self.format.value if self.format else "bf16"
        kind += "-w4a4" if self.activations else ""
        return kind if self.outliers == 1 else f"{kind}-outliers{self.outliers:g}"


def with_outliers(weights: Weights, strength: float) -> Weights:
    """The same function with outlier channels: the first rows of every up projection."""
    scaled = dict(weights)
    rows = slice(0, OUTLIER_ROWS)
    for n in range(shape_of(weights).layers):
        up, down = (f"model.layers.{n}.mlp.{part}_proj.weight" for part in ("up", "down"))
        scaled[up] = weights[up].copy()
        scaled[down] = weights[down].copy()
        scaled[up][rows] *= np.float32(strength)
        scaled[down][:, rows] /= np.float32(strength)
    return scaled


def apply(weights: Weights, variant: Variant) -> Weights:
    """Weights an engine would multiply with after loading that variant."""
    changed = with_outliers(weights, variant.outliers) if variant.outliers != 1 else dict(weights)
    changed = {name: from_bfloat16(to_bfloat16(value)) for name, value in changed.items()}
    if variant.format is not None:
        for name in linear_names(shape_of(weights).layers):
            changed[name] = round_trip(changed[name], variant.format)
    return changed


def rounding(variant: Variant) -> Rounding | None:
    """What W4A4 does to each linear layer's input; nothing for weight-only formats."""
    if variant.format is None or not variant.activations:
        return None
    return partial(round_trip, fmt=variant.format)
