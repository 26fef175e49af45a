"""A small Llama in numpy: the function that a weight file stands for, without PyTorch or vLLM.

One pass over problem and right answer tells both what greedy decoding would have answered (an
answer is exact if and only if every token of it is the most likely one after the right beginning)
and the log-probability of the right answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from chaos.fp4.arithmetic import ANSWER, PROMPT, VOCABULARY, Tokens
from chaos.fp4.weights import Weights
from numpy.typing import NDArray

ROPE_THETA = 10_000.0
NORM_EPSILON = 1e-5
HEAD_SIZE = 32  # the smallest that vLLM's attention on CPUs takes

Array = NDArray[np.float32]
Rounding = Callable[[Array], Array]


@dataclass(frozen=True, slots=True)
class Shape:
    """Size of a model; the name is width x layers, as in `64x3`."""

    width: int
    layers: int

    @classmethod
    def parse(cls, name: str) -> Shape:
        width, layers = name.split("x")
        return cls(int(width), int(layers))

    @property
    def name(self) -> str:
        return f"{self.width}x{self.layers}"

    @property
    def heads(self) -> int:
        return self.width // HEAD_SIZE

    @property
    def intermediate(self) -> int:
        """8/3 of the width, up to a whole number of MXFP4's blocks of 32."""
        return -(-self.width * 8 // 3 // 32) * 32

    @property
    def parameters(self) -> int:
        layer = 4 * self.width**2 + 3 * self.width * self.intermediate + 2 * self.width
        return self.layers * layer + (2 * len(VOCABULARY) + 1) * self.width


LINEAR = (
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
)


def linear_names(layers: int) -> list[str]:
    """The matrices that four-bit formats store: all of the layers', not embedding and head."""
    return [f"model.layers.{n}.{part}.weight" for n in range(layers) for part in LINEAR]


def shape_of(weights: Weights) -> Shape:
    """Size of the model that the weights are of."""
    layers = sum(name.endswith("q_proj.weight") for name in weights)
    return Shape(weights["model.norm.weight"].shape[0], layers)


def _norm(x: Array, gain: Array) -> Array:
    scale: Array = np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(NORM_EPSILON))
    return x / scale * gain


def _rotate(x: Array, cosine: Array, sine: Array) -> Array:
    """Rotary positions over (batch, heads, time, head size), halves paired as in Llama."""
    half = x.shape[-1] // 2
    turned: Array = np.concatenate([-x[..., half:], x[..., :half]], axis=-1)
    return x * cosine + turned * sine


def angles(length: int) -> tuple[Array, Array]:
    """Cosines and sines of the rotary positions, (time, head size) each."""
    frequency = ROPE_THETA ** (-np.arange(0, HEAD_SIZE, 2) / HEAD_SIZE)
    turns = np.arange(length)[:, None] * np.tile(frequency, 2)
    cosine, sine = np.cos(turns), np.sin(turns)
    return cosine.astype(np.float32), sine.astype(np.float32)


def _softmax(x: Array) -> Array:
    shifted = np.exp(x - x.max(axis=-1, keepdims=True))
    total: Array = shifted / shifted.sum(axis=-1, keepdims=True)
    return total


def logits(weights: Weights, tokens: Tokens, rounding: Rounding | None = None) -> Array:
    """(batch, time, vocabulary); `rounding` is applied to each linear layer's input (W4A4)."""
    shape = shape_of(weights)
    batch, length = tokens.shape
    cosine, sine = angles(length)
    future = np.triu(np.full((length, length), -np.inf, np.float32), 1)
    x = weights["model.embed_tokens.weight"][tokens]

    def linear(name: str, value: Array) -> Array:
        return value @ weights[name].T

    def heads(value: Array) -> Array:
        return value.reshape(batch, length, shape.heads, HEAD_SIZE).transpose(0, 2, 1, 3)

    rounded = rounding or (lambda value: value)
    for n in range(shape.layers):
        at = f"model.layers.{n}."
        attn, mlp = f"{at}self_attn.", f"{at}mlp."
        y = rounded(_norm(x, weights[f"{at}input_layernorm.weight"]))
        q = _rotate(heads(linear(f"{attn}q_proj.weight", y)), cosine, sine)
        k = _rotate(heads(linear(f"{attn}k_proj.weight", y)), cosine, sine)
        v = heads(linear(f"{attn}v_proj.weight", y))
        seen = _softmax(q @ k.swapaxes(-1, -2) / np.float32(HEAD_SIZE**0.5) + future) @ v
        seen = seen.transpose(0, 2, 1, 3).reshape(batch, length, shape.width)
        x = x + linear(f"{attn}o_proj.weight", rounded(seen))
        y = rounded(_norm(x, weights[f"{at}post_attention_layernorm.weight"]))
        gate = linear(f"{mlp}gate_proj.weight", y)
        up = linear(f"{mlp}up_proj.weight", y)
        x = x + linear(f"{mlp}down_proj.weight", rounded(gate / (1 + np.exp(-gate)) * up))
    return linear("lm_head.weight", _norm(x, weights["model.norm.weight"]))


def examine(
    weights: Weights, problems: Tokens, rounding: Rounding | None = None, batch: int = 500
) -> tuple[NDArray[np.bool_], Array]:
    """Per problem: is the greedy answer exact, and the mean log-probability of the right tokens.

    Natural logarithm, mean over the six tokens of the answer.
    """
    exact, likely = [], []
    for start in range(0, len(problems), batch):
        part = problems[start : start + batch]
        out = logits(weights, part[:, :-1], rounding)[:, PROMPT - 1 :].astype(np.float64)
        right = part[:, PROMPT:]
        exact.append((out.argmax(axis=-1) == right).all(axis=-1))
        top = out.max(axis=-1, keepdims=True)
        total = np.log(np.exp(out - top).sum(axis=-1)) + top[..., 0]
        chosen = np.take_along_axis(out, right[..., None].astype(np.int64), axis=-1)[..., 0]
        likely.append((chosen - total).sum(axis=-1) / ANSWER)
    return np.concatenate(exact), np.concatenate(likely).astype(np.float32)
