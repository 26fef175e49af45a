"""A model that is known by its public name alone: `--model meta-llama/Llama-3.1-8B`."""

from __future__ import annotations

from typing import NamedTuple


class Named(NamedTuple):
    """`role` is `model` or `draft`, `name` as the hub writes it."""

    name: str
    role: str
    where: str
