"""The same small Llama in PyTorch, for training; parameters are named as Hugging Face names them.

PyTorch is not a dependency of the project: only `train.py` imports this module.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812  its usual name
from chaos.fp4.arithmetic import ANSWER, PROMPT, VOCABULARY
from chaos.fp4.llama import HEAD_SIZE, NORM_EPSILON, Shape, angles
from torch import Tensor, nn


class Norm(nn.Module):
    """Root mean square norm with a gain."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, (x.shape[-1],), self.weight, NORM_EPSILON)


class Attention(nn.Module):
    """Causal attention with rotary positions."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(self, name, nn.Linear(shape.width, shape.width, bias=False))

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        batch, length, width = x.shape

        def heads(value: Tensor) -> Tensor:
            return value.view(batch, length, -1, HEAD_SIZE).transpose(1, 2)

        def rotate(value: Tensor) -> Tensor:
            left, right = value.chunk(2, dim=-1)
            return value * cosine + torch.cat([-right, left], dim=-1) * sine

        q, k = rotate(heads(self.q_proj(x))), rotate(heads(self.k_proj(x)))
        out = F.scaled_dot_product_attention(q, k, heads(self.v_proj(x)), is_causal=True)
        mixed: Tensor = self.o_proj(out.transpose(1, 2).reshape(batch, length, width))
        return mixed


class Mlp(nn.Module):
    """Gated feed-forward layer (SwiGLU)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.width, shape.intermediate, bias=False)
        self.up_proj = nn.Linear(shape.width, shape.intermediate, bias=False)
        self.down_proj = nn.Linear(shape.intermediate, shape.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Layer(nn.Module):
    """One decoder layer, norms before."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.input_layernorm = Norm(shape.width)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = Norm(shape.width)
        self.mlp = Mlp(shape)

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cosine, sine)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class Body(nn.Module):
    """Everything but the head."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(len(VOCABULARY), shape.width)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = Norm(shape.width)


class Network(nn.Module):
    """Tokens (batch, time) to logits (batch, time, vocabulary)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.model = Body(shape)
        self.lm_head = nn.Linear(shape.width, len(VOCABULARY), bias=False)
        cosine, sine = (torch.from_numpy(part) for part in angles(PROMPT + ANSWER))
        self.register_buffer("cosine", cosine, persistent=False)
        self.register_buffer("sine", sine, persistent=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                into_stream = name.endswith(("o_proj.weight", "down_proj.weight"))
                deviation = 0.02 if not into_stream else 0.02 / (2 * shape.layers) ** 0.5
                nn.init.normal_(parameter, std=deviation * (512 / shape.width) ** 0.5)

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        x = self.model.embed_tokens(tokens)
        for layer in self.model.layers:
            x = layer(x, self.cosine[:length], self.sine[:length])
        out: Tensor = self.lm_head(self.model.norm(x))
        return out
