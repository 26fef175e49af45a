"""A Hugging Face checkpoint directory: its configuration and the headers of its weights.

The weights themselves are never read: a checkpoint of hundreds of gigabytes costs the
bytes of its headers and of its index.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from enginewatch.preflight.readers.jsonfile import is_there, read_object, text
from enginewatch.preflight.readers.quantization import Quantization, of_config, of_modelopt
from enginewatch.preflight.readers.safetensors import (
    HeaderError,
    Tensors,
    read_safetensors,
    shards,
)
from enginewatch.preflight.readers.unread import Unread, not_read

INDEX: Final = "model.safetensors.index.json"
CONFIG: Final = "config.json"
QUANTIZED: Final = "hf_quant_config.json"

_MOST_SHARDS: Final = 5_000
_CHECK: Final = "architecture"
_SCALES: Final = ("input_scale", "k_scale", "v_scale", "input_global_scale")
"""Endings of tensors that only a calibration run, or a training with them, can have written."""
_OTHER_WEIGHTS: Final = ("*.bin", "*.pt", "*.pth", "*.gguf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """`role` is `model` or `draft`. `config` is config.json as it stands, empty without one.

    `weights` are those of the safetensors files; None where there are none, or where one of
    them can't be believed (`unread` says which).
    """

    where: str
    role: str
    config: Mapping[str, Any] = field(default_factory=dict)
    quantization: Quantization | None = None
    weights: Tensors | None = None
    unread: tuple[Unread, ...] = ()

    @property
    def dtype(self) -> str:
        """Of the weights that are not quantized, such as `bfloat16`."""
        for path in (("torch_dtype",), ("dtype",), ("text_config", "torch_dtype")):
            if found := text(self.config, *path):
                return found
        return ""

    @property
    def calibrated(self) -> Mapping[str, int]:
        """Scales in the weights that a calibration left, by the ending of their names."""
        endings = self.weights.endings if self.weights else {}
        return {ending: endings[ending] for ending in _SCALES if ending in endings}


def read_checkpoint(folder: Path, role: str = "model") -> Checkpoint:
    """Never raises for what stands in the folder."""
    unread: list[Unread] = []
    config: Mapping[str, Any] = {}
    found = read_object(folder / CONFIG, _CHECK)
    if isinstance(found, Unread):
        unread.append(found)
    else:
        config = found
    quantization = of_config(config, str(folder / CONFIG))
    if is_there(folder / QUANTIZED):
        written = read_object(folder / QUANTIZED, _CHECK)
        if isinstance(written, Unread):
            unread.append(written)
        else:
            quantization = of_modelopt(written, str(folder / QUANTIZED)) or quantization
    weights = _weights(folder, unread)
    return Checkpoint(
        where=str(folder),
        role=role,
        config=config,
        quantization=quantization,
        weights=weights,
        unread=tuple(unread),
    )


def _weights(folder: Path, unread: list[Unread]) -> Tensors | None:
    """All shards together; None, and a reason, where one of them can't be read."""
    before = len(unread)
    total = Tensors()
    files = list(_files(folder, unread))
    if not files and len(unread) == before:
        if any(next(folder.glob(pattern), None) for pattern in _OTHER_WEIGHTS):
            what = "has weights, but none as safetensors: their format is not read"
            unread.append(Unread(str(folder), what, "memory"))
        return None
    # Each sum would copy all names that came before.
    parts = []
    for name, expected in files:
        try:
            found = read_safetensors(folder / name)
        except HeaderError as failure:
            unread.append(Unread(str(folder / name), str(failure), "memory"))
            continue
        except OSError as failure:
            what = not_read(failure)
            unread.append(Unread(str(folder / name), what, "memory"))
            continue
        if expected is not None and found.names != expected:
            unread.append(Unread(str(folder / name), _difference(found.names, expected), "memory"))
        parts.append(found)
    if len(unread) > before:
        return None
    for part in parts:
        total += Tensors(part.elements, part.bytes, part.endings)
    names = frozenset().union(*(part.names for part in parts))
    return Tensors(total.elements, total.bytes, total.endings, names)


def _files(folder: Path, unread: list[Unread]) -> Iterator[tuple[str, frozenset[str] | None]]:
    """The safetensors files, with the tensors that an index says they hold."""
    if not is_there(folder / INDEX):
        names = sorted(path.name for path in folder.glob("*.safetensors"))
        # Mistral's own copy of the same weights lies beside the shards.
        for name in [name for name in names if not name.startswith("consolidated")] or names:
            yield name, None
        return
    index = read_object(folder / INDEX, "memory")
    if isinstance(index, Unread):
        unread.append(index)
        return
    try:
        listed = list(shards(index))
    except HeaderError as failure:
        unread.append(Unread(str(folder / INDEX), str(failure), "memory"))
        return
    if len(listed) > _MOST_SHARDS:
        unread.append(Unread(str(folder / INDEX), f"names {len(listed)} files", "memory"))
        return
    yield from listed


def _difference(found: frozenset[str], expected: frozenset[str]) -> str:
    lacks, more = sorted(expected - found), sorted(found - expected)
    if lacks:
        return f"lacks {len(lacks)} tensors that the index expects, {lacks[0]!r} among them"
    return f"has {len(more)} tensors that the index does not name, {more[0]!r} among them"
