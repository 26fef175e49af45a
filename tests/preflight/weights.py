"""Writes safetensors files and checkpoints whose data is a hole in the file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BITS = {"F4": 4, "U8": 8, "F8_E4M3": 8, "BF16": 16, "F16": 16, "I32": 32, "F32": 32}

Shapes = Mapping[str, tuple[str, tuple[int, ...]]]


def header(tensors: Shapes, **metadata: str) -> tuple[bytes, int]:
    """The first bytes of a file, and the size of its data."""
    entries: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    at = 0
    for name, (dtype, shape) in tensors.items():
        size = -(-math.prod(shape) * BITS[dtype] // 8)
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    raw = json.dumps(entries).encode()
    return len(raw).to_bytes(8, "little") + raw, at


def write(path: Path, tensors: Shapes) -> None:
    head, size = header(tensors)
    with path.open("wb") as stream:
        stream.write(head)
        stream.truncate(len(head) + size)


def write_checkpoint(
    folder: Path, shards: Mapping[str, Shapes], config: Mapping[str, Any] | None = None
) -> None:
    """Shards with their index, and a config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    places = {}
    for name, tensors in shards.items():
        write(folder / name, tensors)
        places |= dict.fromkeys(tensors, name)
    index = {"metadata": {"total_size": 0}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text(json.dumps(config or {}))
