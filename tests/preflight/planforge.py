"""Writes the first part of TensorRT plans, as the grammar of `readers/plan*.py` has it.

An own encoder, so that every layout is tested without a real engine. Values of the
device record are by name; a plan is filled up to its declared length.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from enginewatch.preflight.devices import Gpu, shipped_devices

FORMS: Final = {2: "<B", 7: "<I", 8: "<Q", 9: "<q", 10: "<B"}
_HEAD: Final = "major:7 minor:7 clock:7 memory_clock:7 bus:7 l2:8"
_OLD: Final = f"{_HEAD} per_block:8 per_sm:8 align:8 sms:7 integrated:10 threads:7 x:7 y:7 z:7"
_C1: Final = f"{_HEAD} per_block:7 per_sm:7 align:7 sms:7 integrated:10 threads:7 x:7 y:7 z:7"
_C2: Final = (
    f"{_HEAD} persisting:8 per_block:7 per_sm:7 align:7 sms:7 integrated:10 threads:7 x:7 y:7 z:7"
)
_A, _B, _C = b"\x21\0\x01\0", b"\x48\x80\x01\0\xa5\x80\x01\0", b"\x12\x80\x01\0\x10\x80\x01\0"


@dataclass(frozen=True)
class Form:
    """One layout as one release writes it."""

    name: str
    version: tuple[int, int, int, int]
    container: str
    opens: bytes
    members: str
    closes: bytes = b"\xef\x7f\xed\x7f"
    lead: int = 0


FORMS_OF_PLANS: Final = (
    Form("A0", (7, 0, 0, 11), "crc7", _A, _OLD, b""),
    Form("A1", (7, 1, 3, 0), "crc7", _A, f"{_OLD} memory:8", b""),
    Form("A2", (7, 2, 2, 3), "crc7", _A, f"{_OLD} memory:8 texture:7", b""),
    Form("B", (8, 0, 1, 6), "crc8", _B, f"{_OLD} memory:9 texture:7", b"\x5a\x7f\xb7\x7f"),
    Form("C0", (8, 2, 3, 0), "bare", _C, f"{_OLD} memory:9 texture:7"),
    Form("C1", (8, 4, 1, 5), "bare", _C, f"{_C1} memory:9 texture:7"),
    Form("C2", (8, 5, 1, 7), "bare", _C, f"{_C2} memory:9 texture:7"),
    Form("C2", (8, 6, 1, 6), "ftrt1", _C, f"{_C2} memory:9 texture:7"),
    Form("C3", (10, 0, 1, 6), "ftrt1", _C, f"{_C2} reserved:7 memory:9 texture:7"),
    Form("C4", (10, 3, 0, 26), "ftrt1", _C, f"{_C2} reserved:7 memory:9"),
    Form("C4", (10, 6, 0, 26), "ftrt2", _C, f"{_C2} reserved:7 memory:9"),
    Form(
        "D",
        (10, 15, 1, 29),
        "ftrt2",
        _C,
        "memory:9 l2:8 persisting:8 clock:7 memory_clock:7 bus:7 per_block:7 per_sm:7 sms:7 "
        "zero:7 threads:7 kilo:7 major:7 minor:7 align:7",
    ),
)
_SERIALS: Final = {(8, 2): 0xCD, (8, 4): 0xD5, (8, 5): 0xE8}
_WORDS_OF_7: Final = {0: (0x59, 0xC2), 1: (0x61, 0xD3), 2: (0x60, 0xD6)}


def record_of(name: str, **changes: int) -> dict[str, int]:
    """The device record of a model of the table, in bytes and kHz."""
    gpu = shipped_devices().named(name)
    assert gpu is not None, name
    return record_of_gpu(gpu, **changes)


def record_of_gpu(gpu: Gpu, **changes: int) -> dict[str, int]:
    architecture = shipped_devices().architectures[gpu.capability]
    l2 = int(gpu.l2 or architecture.l2[1])
    found = {
        "major": gpu.capability.major,
        "minor": gpu.capability.minor,
        "clock": 1_410_000,
        "memory_clock": 1_593_000,
        "bus": gpu.bus or max(architecture.buses),
        "l2": l2,
        "persisting": l2 // 2 if gpu.capability.major >= 8 else 0,
        "per_block": 49_152,
        "per_sm": architecture.shared_per_multiprocessor,
        "align": 512,
        "sms": gpu.multiprocessors,
        "integrated": int(architecture.integrated),
        "threads": 1_024,
        "kilo": 1_024,
        "zero": 0,
        "x": 2_147_483_647,
        "y": 65_535,
        "z": 65_535,
        "reserved": 1_024 if gpu.capability.major >= 8 else 0,
        "memory": int((gpu.memory or 16 << 30) * 0.985),
        "texture": 268_435_456,
    }
    return found | changes


def forge(form: Form, record: Mapping[str, int], *, filling: int = 200) -> bytes:
    """A whole plan: header, version, record, and `filling` bytes of what comes after."""
    marked = form.container not in ("crc7", "crc8")
    mark = 0x8000 if marked else 0
    body = b"".join(struct.pack("<HHB", 2 | mark, 1, number) for number in form.version)
    if form.container.startswith("ftrt"):
        body += struct.pack("<HHHHI", 0x80D2, 1, 0x8007, 1, form.lead)
    body += form.opens
    for member in form.members.split():
        name, _, kind = member.partition(":")
        body += struct.pack("<HH", int(kind) | mark, 1)
        body += struct.pack(FORMS[int(kind)], record[name])
    body += form.closes
    # The next member, a maximum batch size, is a u32 as well.
    body += struct.pack("<HHI", 7 | mark, 1, 4) + bytes(filling)
    return _contained(form, body)


def _contained(form: Form, body: bytes) -> bytes:
    crc = zlib.crc32(body)
    if form.container == "crc7":
        words = _WORDS_OF_7[form.version[1]]
        return b"ptrt" + struct.pack("<IIQI", *words, len(body), crc) + body
    if form.container == "crc8":
        return b"ptrt" + struct.pack("<IIIQ", 0x2B, 0x100, crc, len(body)) + body
    if form.container == "bare":
        serial = _SERIALS[form.version[:2]]
        return b"ptrt" + struct.pack("<IQQ", 0, serial, len(body)) + body
    if form.container == "ftrt1":
        block = b"ptrt" + struct.pack("<IQQ", 0, 0xED, len(body)) + body
        return _ftrt(form, 1, block)
    block = b"ptrt" + struct.pack("<IQI", 0xEF, len(body), 0) + body
    return _ftrt(form, 2, block)


def _ftrt(form: Form, container: int, block: bytes) -> bytes:
    start = 56 if container == 1 else 80
    sections = struct.pack("<4sIQQ", b"NGNE", 0, start, len(block))
    tail = b"\x01\x02\x03\x04"
    if container == 2:
        weights = start + len(block)
        sections += struct.pack("<4sIQQ", b"THGW", 0, weights, 16)
        tail = bytes(16) + tail
    total = start + len(block) + len(tail)
    head = struct.pack("<4sIQQ4B4s", b"ftrt", 0, container, total, *form.version, b"rtrt")
    return head + sections + block + tail


def with_prefix(plan: bytes, text: bytes = b'{"task": "detect", "stride": 32}') -> bytes:
    """Behind the JSON that Ultralytics' exporter writes."""
    return struct.pack("<I", len(text)) + text + plan


def form(name: str, **changes: object) -> Form:
    """The last form of a layout's name."""
    found = [each for each in FORMS_OF_PLANS if each.name == name][-1]
    return replace(found, **changes)  # type: ignore[arg-type]


def flat(name: str = "TITAN V", **changes: int) -> bytes:
    """The FlatBuffers form of TensorRT 5.0, with a device table of eleven fields."""
    record = record_of(name) | changes
    fields = [
        ("<I", 0),  # the name's offset, set below
        ("<I", record["major"]),
        ("<I", record["minor"]),
        ("<I", record["clock"]),
        ("<I", record["memory_clock"]),
        ("<I", record["bus"]),
        ("<Q", record["memory"]),
        ("<Q", record["l2"]),
        ("<I", record["sms"]),
        ("<I", 7),
        ("<B", record["integrated"]),
    ]
    root_at = 40
    root_vtable = struct.pack("<13H", 26, 12, 0, 4, 8, *[0] * 8)
    out = bytearray(struct.pack("<QI", 0, 0x20)).ljust(root_at - len(root_vtable), b"\0")
    out += root_vtable
    out += struct.pack("<iII", len(root_vtable), 0, 0)
    version_at = _table(out, [("<I", 5), ("<I", 0), ("<I", 2), ("<I", 6)])
    device_at = _table(out, fields)
    struct.pack_into("<I", out, root_at + 4, version_at - (root_at + 4))
    struct.pack_into("<I", out, root_at + 8, device_at - (root_at + 8))
    text = name.encode()
    struct.pack_into("<I", out, device_at + 4, len(out) - (device_at + 4))
    out += struct.pack("<I", len(text)) + text + bytes(64)
    struct.pack_into("<Q", out, 0, len(out))
    return bytes(out)


def _table(out: bytearray, fields: list[tuple[str, int]]) -> int:
    """A vtable and its table at the end of `out`; where the table begins."""
    offsets, inline = [], b""
    for shape, value in fields:
        offsets.append(4 + len(inline))
        inline += struct.pack(shape, value)
    size = 4 + 2 * len(fields)
    out += struct.pack("<HH", size, 4 + len(inline)) + struct.pack(f"<{len(offsets)}H", *offsets)
    at = len(out)
    out += struct.pack("<i", size) + inline
    return at
