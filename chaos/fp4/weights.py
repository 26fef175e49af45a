"""Weights on disk: the safetensors container and bfloat16, read and written with numpy alone.

Container: eight bytes of header length (little-endian), a JSON header of name, dtype, shape and
byte range, then the bytes (https://github.com/huggingface/safetensors, "Format").
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Weights = dict[str, NDArray[np.float32]]


def to_bfloat16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The upper half of each float32, rounded to nearest, ties to even; finite values only."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = bits + 0x7FFF + ((bits >> 16) & 1)
    return (rounded >> 16).astype(np.uint16)


def from_bfloat16(halves: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Float32 of the same value."""
    return (halves.astype(np.uint32) << 16).view(np.float32)


def save(path: Path, weights: Weights, dtype: str, metadata: dict[str, str] | None = None) -> None:
    """Write weights as `BF16` or `F32`; equal weights give equal bytes."""
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    chunks: list[bytes] = []
    offset = 0
    for name in sorted(weights):
        values = weights[name]
        data = (to_bfloat16(values) if dtype == "BF16" else values.astype(np.float32)).tobytes()
        ends = [offset, offset + len(data)]
        header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": ends}
        chunks.append(data)
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the data starts aligned
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(chunks))


def load(path: Path) -> tuple[Weights, dict[str, str]]:
    """Weights as float32, and the file's metadata."""
    raw = path.read_bytes()
    (length,) = struct.unpack_from("<Q", raw)
    header = json.loads(raw[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    weights: Weights = {}
    for name, entry in header.items():
        start, end = entry["data_offsets"]
        data = raw[8 + length + start : 8 + length + end]
        flat = (
            from_bfloat16(np.frombuffer(data, "<u2"))
            if entry["dtype"] == "BF16"
            else np.frombuffer(data, "<f4")
        )
        weights[name] = flat.reshape(entry["shape"])
    return weights, metadata
