"""What a serialized TensorRT plan says of itself, without TensorRT: its version and build GPU.

Containers, by TensorRT release: FlatBuffers (5.0), a bare `ptrt` block (7.0 to 8.5), and
`ftrt` with a table of sections (8.6 on), each of them possibly behind the JSON that
Ultralytics' exporter writes. Only the first 4 KiB and the file's size are looked at.

What stands against a wrong answer:

- The declared length must be the file's, and that of each section and block must agree with it.
- The version stands twice in `ftrt` files, and both must agree. In bare `ptrt` files it stands
  once: its first two numbers are confirmed by the serial number of the format, the others only
  where the four together are a known release (`rules/compat/tensorrt.yml`).
- TensorRT 7.x and 8.0 have a CRC-32 of the block; it is checked up to `LARGEST_CHECKED` bytes.
- Everything else about the device record is redundancy of its content. A capability implies the
  shared memory of an SM and bounds SMs, bus, cache and whether the GPU is integrated
  (`rules/compat/architectures.yml`), and in the test over every model of the table no one changed
  byte turns a capability into another that all of these admit. The number of SMs is told only
  where the whole record fits a model of `rules/compat/capabilities.yml`.

What one changed byte can still do in files without a checksum: make one model of the table into
another of the same capability, bus, cache and memory (RTX 3070 with 46 SMs into 3060 Ti with 38),
so the number of SMs and the model are then wrong while the capability is right. Of 1,093,950
changes of one byte in thirteen public heads none gave another capability or version, and 5
another model, 4 of them with another number of SMs. Several changed bytes can forge any record;
this is no signature.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from enginewatch.evidence.tables import load_table
from enginewatch.preflight.devices import Device, Devices, shipped_devices
from enginewatch.preflight.readers.plan_flat import is_flat, read_flat
from enginewatch.preflight.readers.plan_record import MARKED, UNMARKED, Record, read_record
from enginewatch.preflight.readers.unread import not_read
from enginewatch.rulepack import rules_path

HEAD: Final = 4_096
"""Bytes from the plan's start that are enough."""
LARGEST_CHECKED: Final = 64 << 20
"""Bytes of a body whose checksum is computed."""

SUFFIXES: Final = (".engine", ".plan", ".trt")
"""Of the files that hold a plan."""

_LONGEST_PREFIX: Final = 1 << 20
_MAGICS: Final = (b"ftrt", b"ptrt")
_CACHE: Final = b"\x18\x80\x01\x00"
_LFS: Final = b"version https://git-lfs"
_VERSION_AT: Final = 24
_TABLE_AT: Final = 32
_ENTRY: Final = 24
_ENGINE, _WEIGHTS = b"NGNE", b"THGW"
_SERIALS: Final[Mapping[int, tuple[tuple[int, int], ...]]] = {
    0x59: ((7, 0),),
    0x61: ((7, 1),),
    0x60: ((7, 2),),
    0x2B: ((8, 0),),
    0xCD: ((8, 2),),
    0xD5: ((8, 4),),
    0xE8: ((8, 5),),
}
"""Serial numbers of the format in bare `ptrt` blocks, and who wrote them."""


class Kind(StrEnum):
    """What a file with the name of a plan is."""

    ENGINE = "engine"
    CACHE = "timing cache"
    DAMAGED = "damaged"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`tensorrt` has four numbers, or two where only these are sure, or is empty.

    `device` is the GPU the plan was built on, None where that is not known;
    `problem` says why, or what is wrong with the file. `models` are the GPUs that the
    record fits; `multiprocessors` is told only with them.
    """

    where: str
    kind: Kind
    tensorrt: str = ""
    device: Device | None = None
    models: tuple[str, ...] = ()
    problem: str = ""
    size: int = 0
    layout: str = ""
    checked: bool = False
    """Whether a checksum of the body was found right."""

    @property
    def multiprocessors(self) -> int | None:
        """None where the record fits no model, so that its number is not believed."""
        return self.device.multiprocessors if self.device and self.models else None


class _Block(NamedTuple):
    """Where the body of a `ptrt` block lies, and its checksum if there is one."""

    at: int
    length: int
    serial: int
    crc: int | None


class _DamagedError(Exception):
    """Two parts of the file contradict each other."""


class _UnknownError(Exception):
    """Not a form that is known."""


@cache
def shipped_releases() -> frozenset[str]:
    """Versions of TensorRT, four numbers each. Raises SignatureError."""
    return frozenset(load_table(rules_path() / "compat" / "tensorrt.yml").rows)


def read_plan(path: Path, where: str = "") -> Plan:
    """The plan in a file. A file that can't be opened is unknown too."""
    name = where or str(path)
    try:
        if not path.is_file():
            what = "a link that leads to no file here" if path.is_symlink() else "no file"
            return Plan(where=name, kind=Kind.UNKNOWN, problem=what)
        with path.open("rb") as stream:
            size = path.stat().st_size
            head = stream.read(HEAD)
            start = plan_offset(head)
            if start:
                stream.seek(start)
                head = stream.read(HEAD)
            plan = parse_plan(head, size - start, where=name)
            return _checked(plan, head, stream, start)
    except OSError as failure:
        return Plan(where=name, kind=Kind.UNKNOWN, problem=not_read(failure))


def plan_offset(head: bytes) -> int:
    """Where the plan begins: behind the length and the JSON of Ultralytics' exporter, if any."""
    if len(head) < 5 or head[4:5] != b"{" or head.startswith(_MAGICS):
        return 0
    (length,) = struct.unpack_from("<I", head)
    return 4 + length if 2 <= length < _LONGEST_PREFIX else 0


def parse_plan(head: bytes, size: int, *, where: str = "") -> Plan:
    """The plan whose first bytes are `head` and which is `size` bytes long. Never raises."""
    plan = Plan(where=where, kind=Kind.UNKNOWN, size=size)
    known, table = shipped_releases(), shipped_devices()
    try:
        if head.startswith(b"ftrt"):
            return _container(plan, head, size, table)
        if head.startswith(b"ptrt"):
            return _bare(plan, head, size, table, known)
        if is_flat(head, size):
            return _flat(plan, head, table, known)
        problem = _foreign(head, size)
    except _DamagedError as failure:
        return replace(plan, kind=Kind.DAMAGED, problem=str(failure))
    except struct.error:
        return replace(plan, kind=Kind.DAMAGED, problem="ends within its own header")
    except _UnknownError as failure:
        problem = str(failure)
    return replace(plan, problem=problem)


def _foreign(head: bytes, size: int) -> str:
    """Why this may be something else. Raises _DamagedError for what surely is no engine."""
    if not size:
        raise _DamagedError("the file is empty")
    if head.startswith(_LFS):
        raise _DamagedError("a Git LFS pointer: the engine itself was not downloaded")
    return "does not begin like a TensorRT plan"


def _container(plan: Plan, head: bytes, size: int, devices: Devices) -> Plan:
    zero, _, declared = struct.unpack_from("<IQQ", head, 4)
    if zero:
        raise _UnknownError(f"serialization version {zero} is not known")
    if declared != size:
        raise _DamagedError(_lengths(declared, size))
    at, length = _engine_section(head, size)
    if head[at : at + 4] != b"ptrt":
        raise _UnknownError("the engine's section does not begin like one")
    block = _block(head, at)
    if block.at + block.length != at + length:
        raise _DamagedError("the engine's block and its section disagree about their length")
    record = read_record(head[block.at :], leads=True)
    if record is None:
        raise _UnknownError("the engine's section has no version")
    if record.version != tuple(head[_VERSION_AT : _VERSION_AT + 4]):
        raise _DamagedError("the two versions of TensorRT that it names are not the same")
    return _told(plan, record, _dotted(record.version), devices)


def _engine_section(head: bytes, size: int) -> tuple[int, int]:
    """Offset and length of the only section `NGNE`; beside it only `THGW` is known."""
    sections: dict[bytes, tuple[int, int]] = {}
    at, first = _TABLE_AT, len(head)
    while at < first:
        tag, zero, offset, length = struct.unpack_from("<4sIQQ", head, at)
        if tag not in (_ENGINE, _WEIGHTS) or zero or tag in sections:
            raise _UnknownError("a section that is not known: perhaps a version-compatible plan")
        at += _ENTRY
        if offset < at or offset + length > size:
            raise _DamagedError("a section lies outside the file")
        sections[tag] = (offset, length)
        first = min(first, offset)
    if _ENGINE not in sections or at != first or sections[_ENGINE][0] != at:
        raise _UnknownError("the table of sections is not of a known form")
    return sections[_ENGINE]


def _bare(plan: Plan, head: bytes, size: int, devices: Devices, releases: frozenset[str]) -> Plan:
    if head[24:28] == _CACHE:
        return replace(plan, kind=Kind.CACHE, problem="a timing cache, not an engine")
    block = _block(head, 0)
    if block.at + block.length != size:
        raise _DamagedError(_lengths(block.at + block.length, size))
    record = read_record(head[block.at :], leads=False)
    if record is None:
        raise _UnknownError("the engine has no version where it should be")
    body = head[block.at : block.at + block.length]
    checked = block.crc is not None and len(body) == block.length
    if checked and zlib.crc32(body) != block.crc:
        raise _DamagedError("its checksum is wrong")
    version = _dotted(record.version)
    if not checked and version not in releases:
        series = record.version[:2]
        version = _dotted(series) if series in _SERIALS.get(block.serial, ()) else ""
    elif record.version[:2] not in _SERIALS.get(block.serial, (record.version[:2],)):
        version = ""
    return replace(_told(plan, record, version, devices), checked=checked)


def _block(head: bytes, at: int) -> _Block:
    """The block at an offset; how its header is laid out shows in where the body begins."""
    if head[at + 24 : at + 28] == MARKED:
        zero, serial, length = struct.unpack_from("<IQQ", head, at + 4)
        if not zero:
            return _Block(at + 24, length, serial, None)
        # TensorRT 8.0 marks objects but not yet values, so a marked value has another header.
        raise _DamagedError("its header has a value where there should be none")
    if head[at + 24 : at + 28] == UNMARKED:
        serial, _ = struct.unpack_from("<II", head, at + 4)
        if serial == _EIGHT:
            crc, length = struct.unpack_from("<IQ", head, at + 12)
        else:
            length, crc = struct.unpack_from("<QI", head, at + 12)
        return _Block(at + 24, length, serial, crc)
    if head[at + 20 : at + 24] == MARKED:
        serial, length, zero = struct.unpack_from("<IQI", head, at + 4)
        if not zero:
            return _Block(at + 20, length, serial, None)
        raise _DamagedError("its header has a value where there should be none")
    raise _UnknownError("no engine, or of a layout not known")


_EIGHT: Final = 0x2B


def _flat(plan: Plan, head: bytes, devices: Devices, releases: frozenset[str]) -> Plan:
    record = read_flat(head)
    if record is None:
        raise _UnknownError("a FlatBuffer that is not of the known shape")
    version = _dotted(record.version)
    device = record.device
    named = devices.named(device.name) if device else None
    if device and (named is None or not named.admits(device)):
        reason = f"the record of {device.name!r} does not describe that GPU"
        record = record._replace(device=None, unknown=reason)
    return _told(plan, record, version if version in releases else "", devices)


def _told(plan: Plan, record: Record, version: str, devices: Devices) -> Plan:
    """An engine; its device only if such a GPU can exist."""
    device, problem = record.device, record.unknown
    if device is not None and not devices.plausible(device):
        problem = f"the device record (capability {device.capability}) describes no GPU that exists"
        device = None
    models = tuple(gpu.name for gpu in devices.models(device)) if device else ()
    return replace(
        plan,
        kind=Kind.ENGINE,
        tensorrt=version,
        device=device,
        models=models,
        problem=problem,
        layout=record.layout,
    )


def _checked(plan: Plan, head: bytes, stream: BinaryIO, start: int) -> Plan:
    """The same plan, with the checksum of a body that did not fit into the head."""
    if plan.kind is not Kind.ENGINE or plan.checked or not head.startswith(b"ptrt"):
        return plan
    block = _block(head, 0)
    if block.crc is None or block.length > LARGEST_CHECKED:
        return plan
    stream.seek(start + block.at)
    body = stream.read(block.length)
    return parse_plan(head[: block.at] + body, plan.size, where=plan.where)


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))


def _lengths(declared: int, size: int) -> str:
    how = "truncated" if declared > size else "longer than it should be"
    return f"{how}: it says that it has {declared} bytes, and has {size}"
