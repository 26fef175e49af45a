"""What a safetensors file holds, from its header alone: the weights are never read.

The format: u64 length, that many bytes of JSON (tensor -> dtype, shape, offsets), then
the tensors, back to back. A header is believed only where all of it fits the file: the
offsets begin at 0, leave no gap, end where the file ends, and fit shapes and types.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from enginewatch.preflight.readers.ranges import Ranges, ShortError

LONGEST_HEADER: Final = 100_000_000
"""Bytes, the limit of the format's own reader."""

_BITS: Final[Mapping[str, int]] = {
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ"), 8),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 16),
    **dict.fromkeys(("U32", "I32", "F32"), 32),
    **dict.fromkeys(("U64", "I64", "F64", "C64"), 64),
}
_MOST_DIMENSIONS: Final = 32
_METADATA: Final = "__metadata__"
_LFS: Final = b"version "


class HeaderError(Exception):
    """A header that can't be read, or that lies; the message says how."""


@dataclass(frozen=True, slots=True)
class Tensors:
    """What one file or all shards of a checkpoint hold.

    `elements` and `bytes` are by dtype, as the format writes it; packed four-bit weights
    stand as U8 or I32 with fewer elements than there are weights. `endings` counts tensors
    by the last part of their name (`weight`, `weight_scale`, `k_scale`).
    """

    elements: Mapping[str, int] = field(default_factory=dict)
    bytes: Mapping[str, int] = field(default_factory=dict)
    endings: Mapping[str, int] = field(default_factory=dict)
    names: frozenset[str] = frozenset()

    @property
    def size(self) -> int:
        """Bytes of all tensors."""
        return sum(self.bytes.values())

    def __add__(self, other: Tensors) -> Tensors:
        return Tensors(
            Counter(self.elements) + Counter(other.elements),
            Counter(self.bytes) + Counter(other.bytes),
            Counter(self.endings) + Counter(other.endings),
            self.names | other.names,
        )


def read_safetensors(path: Path) -> Tensors:
    """Raises HeaderError, OSError."""
    if not path.is_file():
        raise HeaderError("is not a file")
    with path.open("rb") as stream:
        return read_tensors(Ranges(stream))


def read_tensors(ranges: Ranges) -> Tensors:
    """Of a file in pieces: eight bytes and the header are read. Raises HeaderError, OSError."""
    try:
        first = ranges.read(0, 8)
    except ShortError:
        raise HeaderError(f"has {ranges.size} bytes, fewer than a header") from None
    if first == _LFS:
        raise HeaderError("a Git LFS pointer: the weights themselves were not downloaded")
    length = int.from_bytes(first, "little")
    if length > LONGEST_HEADER:
        raise HeaderError(f"its header would have {length} bytes, more than the format allows")
    try:
        raw = ranges.read(8, length)
    except ShortError:
        what = f"its header would have {length} bytes, and the file has {ranges.size}"
        raise HeaderError(what) from None
    return _tensors(_parsed(raw), ranges.size - 8 - length)


def _parsed(raw: bytes) -> dict[str, Any]:
    if not raw.startswith(b"{"):
        raise HeaderError("its header is not a JSON object")
    try:
        header = json.loads(raw, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as failure:
        raise HeaderError(f"its header is not JSON: {failure}") from None
    return dict(header)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice")
    return found


def _tensors(header: dict[str, Any], room: int) -> Tensors:
    header.pop(_METADATA, None)
    elements: Counter[str] = Counter()
    size: Counter[str] = Counter()
    endings: Counter[str] = Counter()
    stretches: list[tuple[int, int]] = []
    for name, entry in header.items():
        dtype, count, begin, end = _entry(name, entry)
        elements[dtype] += count
        size[dtype] += end - begin
        endings[name.rpartition(".")[2]] += 1
        stretches.append((begin, end))
    _check_cover(stretches, room)
    return Tensors(dict(elements), dict(size), dict(endings), frozenset(header))


def _entry(name: str, entry: Any) -> tuple[str, int, int, int]:
    """Type, number of elements, and where the tensor begins and ends."""
    try:
        dtype, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        known = isinstance(dtype, str) and isinstance(shape, list)
        numbers = [*shape, begin, end]
    except (TypeError, KeyError, ValueError):
        raise HeaderError(f"tensor {name!r} has no dtype, shape and data_offsets") from None
    if (
        not known
        or len(shape) > _MOST_DIMENSIONS
        or any(type(number) is not int or not 0 <= number < 1 << 63 for number in numbers)
        or begin > end
    ):
        raise HeaderError(f"tensor {name!r} has a shape or offsets that can't be")
    count = math.prod(shape)
    bits = _BITS.get(dtype)
    if bits is not None and -(-count * bits // 8) != end - begin:
        what = f"{end - begin} bytes for {shape} of {dtype}"
        raise HeaderError(f"tensor {name!r} would have {what}")
    return dtype, count, begin, end


def _check_cover(stretches: list[tuple[int, int]], room: int) -> None:
    reached = 0
    for begin, end in sorted(stretches):
        if begin != reached:
            how = "overlap" if begin < reached else "leave a gap"
            raise HeaderError(f"its tensors {how} at byte {reached} of the data")
        reached = end
    if reached != room:
        raise HeaderError(f"its tensors need {reached} bytes, and the file has {room} for them")


def shards(index: Mapping[str, Any]) -> Iterator[tuple[str, frozenset[str]]]:
    """The files of `model.safetensors.index.json`, each with the tensors it should hold.

    Raises HeaderError for an index that is none, or that names files elsewhere.
    """
    places = index.get("weight_map")
    if not isinstance(places, dict) or not places:
        raise HeaderError("has no weight_map")
    found: dict[str, set[str]] = {}
    for tensor, file in places.items():
        if not isinstance(file, str):
            raise HeaderError(f"names {file!r} for {tensor!r}, which is no file")
        found.setdefault(file, set()).add(tensor)
    for file in found:
        if not file or Path(file).name != file:
            raise HeaderError(f"names {file!r}, which is no file of this folder")
    for file, tensors in sorted(found.items()):
        yield file, frozenset(tensors)
