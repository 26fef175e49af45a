"""ELF images: the sections of a host's shared library, and what a CUDA image was compiled for.

A CUDA image (e_machine 190) has its SM number in `e_flags`: with ABI version 7 in the
lowest byte, with 8 in the second (CUDA 13). Whether the code is for that architecture
alone (`sm_90a`) stands in `.nv.compat`, and the whole target in the command line that
ptxas leaves in `.note.nv.tkinfo`; both read off images that nvcc 13.0 made.
"""

from __future__ import annotations

import re
import struct
from typing import Final, NamedTuple

from enginewatch.preflight.readers.gpu_target import Form, Target, parse_target, target
from enginewatch.preflight.readers.ranges import Ranges, ShortError

MAGIC: Final = b"\x7fELF"
CUDA: Final = 190
"""EM_CUDA."""

_HEADER: Final = 64
_SECTION: Final = 64
_MOST_SECTIONS: Final = 200_000
_LONGEST_NOTE: Final = 4_096
_LONGEST_NAMES: Final = 1 << 24
_LONGEST_NAME: Final = 256
"""Bytes of a name that are looked at; those that mean something here are shorter."""
_WIDE, _LITTLE = 2, 1
_ABI_OF_CUDA_12, _ABI_OF_CUDA_13 = 7, 8
_NOBITS: Final = 8
_EXTENDED: Final = 0xFFFF
_ARCH: Final = re.compile(rb"-arch[ =](sm_\d{2,3}[af]?)\b")
_ONLY_THIS: Final = b"\x02\x09\x01\x00"
"""In `.nv.compat`: attribute 9, of two bytes, is 1 for architecture-specific code."""
_VARIANTS_SINCE: Final = 90
"""The first SM that has architecture-specific code."""


class Section(NamedTuple):
    """A row of the table of sections; `offset` and `size` in bytes, `type` an SHT_ number."""

    name: str
    type: int
    offset: int
    size: int


class ElfError(Exception):
    """Not an ELF file that can be read; the message says why."""


def machine(header: bytes) -> int | None:
    """`e_machine` of a 64-bit little-endian ELF; None for anything else."""
    if len(header) < 20 or not header.startswith(MAGIC + bytes([_WIDE, _LITTLE, 1])):
        return None
    return int(struct.unpack_from("<H", header, 18)[0])


def sections(ranges: Ranges, at: int = 0) -> list[Section]:
    """The sections of the image at an offset, whose offsets count from there. Raises ElfError."""
    try:
        header = ranges.read(at, _HEADER)
        if machine(header) is None:
            raise ElfError("is not a 64-bit little-endian ELF file")
        (table,) = struct.unpack_from("<Q", header, 0x28)
        entry, count, names = struct.unpack_from("<HHH", header, 0x3A)
        if not table:
            raise ElfError("has no sections")
        if entry != _SECTION or count > _MOST_SECTIONS:
            raise ElfError("has a table of sections that can't be read")
        if not count or names == _EXTENDED:
            # More than 65,279 sections: the numbers stand in the first of them.
            first = struct.unpack("<IIQQQQIIQQ", ranges.read(at + table, _SECTION))
            count, names = count or first[5], first[6] if names == _EXTENDED else names
        if count > _MOST_SECTIONS or names >= count:
            raise ElfError("has a table of sections that can't be read")
        raw = ranges.read(at + table, count * _SECTION)
        rows = [struct.unpack_from("<IIQQQQIIQQ", raw, n * _SECTION) for n in range(count)]
        text = ranges.read(at + rows[names][4], min(rows[names][5], _LONGEST_NAMES))
    except ShortError:
        raise ElfError("is truncated: its sections lie beyond its end") from None
    return [
        Section(_string(text, row[0]), row[1], row[4], 0 if row[1] == _NOBITS else row[5])
        for row in rows
    ]


def is_whole(ranges: Ranges) -> bool:
    """Whether all that the headers of an image at 0 name lies within the file. Raises ElfError."""
    ends = [each.offset + each.size for each in sections(ranges)]
    header = ranges.read(0, _HEADER)
    (segments,) = struct.unpack_from("<Q", header, 0x20)
    size, count = struct.unpack_from("<HH", header, 0x36)
    return bool(max(*ends, segments + size * count) <= ranges.size)


def sm_number(header: bytes) -> int | None:
    """90 for sm_90, of the first bytes of a CUDA image; None for anything else."""
    if len(header) < _HEADER or machine(header) != CUDA:
        return None
    (flags,) = struct.unpack_from("<I", header, 48)
    if header[8] == _ABI_OF_CUDA_13:
        return int(flags >> 8 & 0xFF)
    return int(flags & 0xFF) if header[8] <= _ABI_OF_CUDA_12 else None


def cuda_target(ranges: Ranges, at: int = 0) -> Target | None:
    """What the CUDA image at an offset is for; None where that is not such an image, or where
    its header and its note contradict each other."""
    try:
        number = sm_number(ranges.read(at, _HEADER))
    except ShortError:
        return None
    if number is None:
        return None
    found = target(number, Form.SASS, "?" if number >= _VARIANTS_SINCE else "")
    return _with_variant(found, ranges, at)


def _with_variant(found: Target, ranges: Ranges, at: int) -> Target | None:
    """The variant, where a section tells it."""
    try:
        table = {each.name: each for each in sections(ranges, at)}
        note = _content(ranges, at, table.get(".note.nv.tkinfo"))
        compat = _content(ranges, at, table.get(".nv.compat"))
    except (ElfError, ShortError):
        return found
    written = _ARCH.search(note)
    told = parse_target(written[1].decode()) if written else None
    if told is not None:
        return told if told.capability == found.capability else None
    if compat.startswith(_ONLY_THIS):
        return found._replace(variant="a")
    return found


def _content(ranges: Ranges, at: int, section: Section | None) -> bytes:
    if section is None:
        return b""
    return ranges.read(at + section.offset, min(section.size, _LONGEST_NOTE))


def _string(text: bytes, at: int) -> str:
    end = text.find(b"\0", at, at + _LONGEST_NAME)
    return text[at:end].decode("latin-1") if 0 <= at < end else ""
