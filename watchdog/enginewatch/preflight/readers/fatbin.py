"""CUDA's fat binaries: which machine code and which PTX lie in one.

A fat binary is a header (magic, u16 version 1, u16 header size 16, u64 length) and
entries, each with a header that tells kind, length, architecture and flags; the payload
may be compressed, so only entry headers are read. Layout as nvcc 13.0 writes it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from enginewatch.preflight.readers.elf import machine, sm_number
from enginewatch.preflight.readers.gpu_target import Form, Target, target
from enginewatch.preflight.readers.ranges import Ranges, ShortError

MAGIC: Final = b"\x50\xed\x55\xba"

_HEADER: Final = 16
_ENTRY: Final = 64
_IMAGE: Final = 64
_LARGEST_ENTRY: Final = 65_536
_PTX, _ELF = 1, 2
_ONLY_THIS, _FAMILY = 1 << 20, 1 << 21
"""Flags of the targets `sm_NNa` and `sm_NNf`."""
_ALIGNED: Final = 8
_MOST_ENTRIES: Final = 1_000_000


class FatbinError(Exception):
    """A fat binary that contradicts itself."""


def targets(ranges: Ranges, at: int, end: int) -> Iterator[Target]:
    """Of all fat binaries in a stretch, which follow one another with padding between.

    Raises FatbinError; what came before it was read right.
    """
    seen = 0
    try:
        while (at := _skip_padding(ranges, at, end)) + _HEADER <= end:
            magic, version, header, length = struct.unpack("<4sHHQ", ranges.read(at, _HEADER))
            if magic != MAGIC or version != 1 or header < _HEADER:
                raise FatbinError("something else stands where a fat binary should begin")
            at += header
            stop = at + length
            if stop > end:
                raise FatbinError("a fat binary is longer than what holds it")
            while at < stop:
                found, size = _entry(ranges, at, stop)
                at += size
                seen += 1
                if seen > _MOST_ENTRIES:
                    raise FatbinError("has more entries than can be")
                if found is not None:
                    yield found
        if at < end:
            raise FatbinError("is truncated within a header")
    except ShortError:
        raise FatbinError("is truncated") from None


def _entry(ranges: Ranges, at: int, stop: int) -> tuple[Target | None, int]:
    """The target of an entry, None for what is no code, and its length with its header."""
    if at + _ENTRY > stop:
        raise FatbinError("is truncated within an entry")
    raw = ranges.read(at, _ENTRY)
    kind, _, header, payload = struct.unpack_from("<HHIQ", raw)
    (number,) = struct.unpack_from("<I", raw, 28)
    (flags,) = struct.unpack_from("<Q", raw, 40)
    size = header + payload
    if not _ENTRY <= header <= _LARGEST_ENTRY or at + size > stop:
        raise FatbinError("an entry reaches beyond its fat binary")
    if kind not in (_PTX, _ELF):
        return None, size
    variant = "a" if flags & _ONLY_THIS else "f" if flags & _FAMILY else ""
    found = target(number, Form.SASS if kind == _ELF else Form.PTX, variant)
    # A compressed payload has no header to compare with.
    image = ranges.read(at + header, min(_IMAGE, payload)) if kind == _ELF else b""
    if machine(image) is not None and sm_number(image) != number:
        raise FatbinError(f"an entry for {found} holds an image for something else")
    return found, size


def _skip_padding(ranges: Ranges, at: int, end: int) -> int:
    """The next place that is not zero, or `end`."""
    while at < end:
        step = min(4_096, end - at)
        # Almost always the next fat binary follows at once.
        piece = ranges.read(at, min(_ALIGNED, step))
        if piece.strip(b"\0"):
            return at + len(piece) - len(piece.lstrip(b"\0"))
        piece = ranges.read(at, step)
        rest = piece.lstrip(b"\0")
        if rest:
            return at + len(piece) - len(rest)
        at += step
    return end
