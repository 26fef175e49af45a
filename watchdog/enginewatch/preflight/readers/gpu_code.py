"""The GPU code in a file: a cubin, a fat binary, a shared library, PTX, or a wheel of libraries.

Which architectures have machine code and which PTX. Nothing is run, and of libraries only
headers are read. A wheel is an archive from somebody else: its members are bounded in
number, in size and in how far they may expand.
"""

from __future__ import annotations

import re
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, BinaryIO, Final

from enginewatch.preflight.readers import elf, fatbin
from enginewatch.preflight.readers.gpu_target import Form, Target, parse_target
from enginewatch.preflight.readers.ranges import Ranges, ShortError
from enginewatch.preflight.readers.unread import not_read

MOST_MEMBERS: Final = 50_000
LARGEST_MEMBER: Final = 8 << 30
LARGEST_WHEEL: Final = 16 << 30
"""Bytes that all libraries of a wheel may have when unpacked."""
MOST_LOOSE: Final = 20_000
"""Images in a library's data, outside of fat binaries."""
MOST_EXPANSION: Final = 100
"""How many times its packed size a library may have; real ones have 2 to 12 times."""

LIBRARY: Final = re.compile(r"\.(?:so(?:\.\d+)*|cubin|fatbin|pyd|ptx)$")
"""Names of files that can hold GPU code."""

_FATBIN_SECTIONS: Final = (".nv_fatbin", "__nv_relfatbin")
_DATA_SECTIONS: Final = (".rodata", ".data", ".data.rel.ro", ".lrodata", ".ldata")
_LARGEST_DATA: Final = 2 << 30
_PIECE: Final = 1 << 22
_ZIP: Final = b"PK\x03\x04"
_PTX_TARGET: Final = re.compile(rb"^\s*\.target\s+(sm_\d{2,3}[af]?)", re.MULTILINE)
_CUDA_IMAGE: Final = elf.MAGIC + b"\x02\x01\x01"
_HEAD: Final = 8_192


@dataclass(frozen=True, slots=True)
class GpuCode:
    """`targets` counts images by what they are for; a file without any holds no GPU code.

    `problem` says what could not be read: the targets are then a lower bound.
    """

    where: str
    targets: Mapping[Target, int] = field(default_factory=dict)
    problem: str = ""


class UnpackError(Exception):
    """An archive that is not what it says, or more than is allowed."""


def read_gpu_code(path: Path) -> tuple[GpuCode, ...]:
    """One record for a file; for a wheel one for each of its libraries that holds GPU code, or
    that can't be read. Never raises for what the file holds."""
    where = str(path)
    try:
        if not path.is_file():
            return (GpuCode(where, problem="is not a file"),)
        with path.open("rb") as stream:
            head = stream.read(4)
            if head == _ZIP:
                return tuple(_wheel(stream, where))
            return (read_stream(stream, where),)
    except OSError as failure:
        return (GpuCode(where, problem=not_read(failure)),)


def read_stream(stream: BinaryIO, where: str) -> GpuCode:
    """Of one file that is no archive."""
    ranges = Ranges(stream)
    found: Counter[Target] = Counter()
    problem = ""
    try:
        for each in _targets(ranges):
            found[each] += 1
    except (elf.ElfError, fatbin.FatbinError, UnpackError) as failure:
        problem = str(failure)
    except ShortError:
        problem = "is truncated"
    return GpuCode(where, dict(found), problem)


def _targets(ranges: Ranges) -> Iterator[Target]:
    head = ranges.read(0, min(_HEAD, ranges.size))
    if head.startswith(fatbin.MAGIC):
        yield from fatbin.targets(ranges, 0, ranges.size)
        return
    found = elf.machine(head)
    if found == elf.CUDA:
        image = elf.cuda_target(ranges)
        if image is None:
            raise elf.ElfError("is a CUDA image of a form not known")
        # A cubin that lost its end still has a header that looks right.
        if not elf.is_whole(ranges):
            raise elf.ElfError("is truncated: parts of it lie beyond its end")
        yield image
        return
    if found is not None:
        yield from _library(ranges)
        return
    written = _PTX_TARGET.search(head)
    told = parse_target(written[1].decode()) if written else None
    if told is None:
        raise elf.ElfError("is neither a CUDA image, a fat binary, PTX nor a shared library")
    yield told._replace(form=Form.PTX)


def _library(ranges: Ranges) -> Iterator[Target]:
    """Of a library's fat binaries, and of the images that lie loose in its data."""
    for section in elf.sections(ranges):
        end = section.offset + section.size
        if end > ranges.size:
            raise elf.ElfError(f"is truncated: its section {section.name} lies beyond its end")
        if section.name in _FATBIN_SECTIONS:
            yield from fatbin.targets(ranges, section.offset, end)
        elif section.name in _DATA_SECTIONS:
            yield from _loose(ranges, section.offset, min(end, section.offset + _LARGEST_DATA))


def _loose(ranges: Ranges, at: int, end: int) -> Iterator[Target]:
    """CUDA images somewhere in a stretch, as TensorRT-LLM's attention kernels are kept."""
    overlap = len(_CUDA_IMAGE) - 1
    seen = 0
    while at < end:
        piece = ranges.read(at, min(_PIECE, end - at))
        place = piece.find(_CUDA_IMAGE)
        while place >= 0:
            found = elf.cuda_target(ranges, at + place)
            if found is not None:
                seen += 1
                if seen > MOST_LOOSE:
                    raise elf.ElfError(f"has more than {MOST_LOOSE} loose images")
                yield found
            place = piece.find(_CUDA_IMAGE, place + 1)
        if at + len(piece) >= end:
            return
        at += len(piece) - overlap


def _wheel(stream: BinaryIO, where: str) -> Iterator[GpuCode]:
    try:
        with zipfile.ZipFile(stream) as archive:
            members = archive.infolist()
            if len(members) > MOST_MEMBERS:
                yield GpuCode(where, problem=f"has {len(members)} members: not a wheel")
                return
            room = LARGEST_WHEEL
            for member in members:
                if LIBRARY.search(member.filename):
                    room -= member.file_size
                    yield from _member(archive, member, f"{where}!{member.filename}", room)
    except (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError) as failure:
        yield GpuCode(where, problem=f"is no zip archive that can be read: {failure}")


def _member(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, where: str, room: int
) -> Iterator[GpuCode]:
    """What a member holds, if it holds GPU code or can't be read."""
    try:
        _allow(member, room)
        with archive.open(member) as packed, tempfile.TemporaryFile() as unpacked:
            _unpack(packed, unpacked, member.file_size)
            found = read_stream(unpacked, where)
    except (UnpackError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as failure:
        yield GpuCode(where, problem=f"can't be unpacked: {failure}")
        return
    except NotImplementedError:
        yield GpuCode(where, problem="can't be unpacked: compressed in a way not known here")
        return
    if found.targets or found.problem:
        yield replace(found, where=where)


def _allow(member: zipfile.ZipInfo, room: int) -> None:
    """Raises UnpackError for what would fill the disk, before a byte of it is unpacked."""
    if member.file_size > LARGEST_MEMBER or room < 0:
        raise UnpackError(f"it would have {member.file_size} bytes")
    if member.file_size > MOST_EXPANSION * max(member.compress_size, 4_096):
        times = member.file_size // max(member.compress_size, 1)
        raise UnpackError(f"it would expand to {times} times its size, as no library does")


def _unpack(packed: IO[bytes], unpacked: BinaryIO, size: int) -> None:
    """What a member says of its size is checked: more than that is never written."""
    written = 0
    while piece := packed.read(_PIECE):
        written += len(piece)
        if written > size:
            raise UnpackError("it is longer than it says")
        unpacked.write(piece)
    if written < size:
        raise UnpackError("it is shorter than it says")
