"""The token stream of a TensorRT plan (7.0 to 10.15), down to the record of its build GPU.

NVIDIA documents none of this; the grammar was worked out from 94 public plans. All
integers are little-endian. A *value* is a u16 tag (its type), a u16 version (1) and
the value; an *object* is a u16 tag, a u16 version, members, and the tag's bitwise NOT.

The record is accepted only where every tag, version, type and closing tag fits one
known layout. A new shape is unknown, never guessed at.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

from enginewatch.preflight.capability import Capability
from enginewatch.preflight.devices import Device

MARKED, UNMARKED = b"\x02\x80\x01\x00", b"\x02\x00\x01\x00"
"""The first token of a body, from TensorRT 8.2 and before."""

_TYPES: Final[Mapping[str, str]] = {"7": "<I", "8": "<Q", "9": "<q", "a": "<B"}
_BYTE: Final = 2
_U32: Final = 7
_MARK: Final = 0x8000


class Record(NamedTuple):
    """Four version numbers, and the device or the reason why it is not known."""

    version: tuple[int, int, int, int]
    device: Device | None
    unknown: str = ""
    layout: str = ""


class _Layout(NamedTuple):
    name: str
    opens: bytes
    closes: bytes
    types: str
    members: str
    minor: int | None = None
    """Of TensorRT 7, whose three layouts nothing else tells apart."""


_A, _B, _C = b"\x21\0\x01\0", b"\x48\x80\x01\0\xa5\x80\x01\0", b"\x12\x80\x01\0\x10\x80\x01\0"
_NOT_B, _NOT_C = b"\x5a\x7f\xb7\x7f", b"\xef\x7f\xed\x7f"
_HEAD: Final = "major minor clock memory_clock bus l2 "
_OLD: Final = f"{_HEAD}per_block per_sm align sms integrated threads x y z"
_NEW: Final = f"{_HEAD}persisting per_block per_sm align sms integrated threads x y z"
_D: Final = (
    "memory l2 persisting clock memory_clock bus per_block per_sm sms zero threads kilo major "
    "minor align"
)
_LAYOUTS: Final = (
    _Layout("A0", _A, b"", "7777788887a7777", _OLD, 0),
    _Layout("A1", _A, b"", "7777788887a77778", f"{_OLD} memory", 1),
    _Layout("A2", _A, b"", "7777788887a777787", f"{_OLD} memory texture", 2),
    _Layout("B", _B, _NOT_B, "7777788887a777797", f"{_OLD} memory texture"),
    _Layout("C0", _C, _NOT_C, "7777788887a777797", f"{_OLD} memory texture"),
    _Layout("C1", _C, _NOT_C, "7777787777a777797", f"{_OLD} memory texture"),
    _Layout("C2", _C, _NOT_C, "77777887777a777797", f"{_NEW} memory texture"),
    _Layout("C3", _C, _NOT_C, "77777887777a7777797", f"{_NEW} reserved memory texture"),
    _Layout("C4", _C, _NOT_C, "77777887777a777779", f"{_NEW} reserved memory"),
    _Layout("D", _C, _NOT_C, "988777777777777", _D),
)

_ALWAYS: Final[Mapping[str, frozenset[int]]] = {
    "per_block": frozenset({49_152}),
    "align": frozenset({512}),
    "threads": frozenset({1_024}),
    "kilo": frozenset({1_024}),
    "zero": frozenset({0}),
    "x": frozenset({2_147_483_647}),
    "y": frozenset({65_535}),
    "z": frozenset({65_535}),
    "integrated": frozenset({0, 1}),
    "texture": frozenset({134_217_728, 268_435_456}),
    "reserved": frozenset({0, 1_024}),
}
"""CUDA's own limits: the same on every GPU since Maxwell."""
_CLOCKS: Final = range(100_000, 5_000_001)
"""kHz."""
_AMPERE: Final = 8
"""The first major capability whose system keeps a KiB of each block's shared memory."""


class _UnfitError(Exception):
    """The bytes are not what the grammar asks for here."""


class _Tokens:
    """A cursor over the body. Its readers raise _UnfitError."""

    def __init__(self, body: bytes, mark: int):
        self._body: Final = body
        self._mark: Final = mark
        self.at = 0

    def value(self, kind: int, form: str) -> int:
        tag, version = self._unpack("<HH")
        if tag != kind | self._mark or version != 1:
            raise _UnfitError
        (found,) = self._unpack(form)
        return found

    def skip_opening(self) -> None:
        """One opening tag of an object, whatever its number: it changes between releases."""
        tag, version = self._unpack("<HH")
        if not tag & _MARK or version != 1 or tag & ~_MARK <= 0xF:
            raise _UnfitError

    def literal(self, text: bytes) -> None:
        if self._body[self.at : self.at + len(text)] != text:
            raise _UnfitError
        self.at += len(text)

    def _unpack(self, form: str) -> tuple[int, ...]:
        size = struct.calcsize(form)
        if self.at + size > len(self._body):
            raise _UnfitError
        found: tuple[int, ...] = struct.unpack_from(form, self._body, self.at)
        self.at += size
        return found


def read_record(body: bytes, *, leads: bool) -> Record | None:
    """The record of a body, of which the first few hundred bytes are enough; None for no body.

    `leads`: an object with one value stands before the record (from TensorRT 8.6).
    """
    mark = _MARK if body.startswith(MARKED) else 0
    tokens = _Tokens(body, mark)
    try:
        version = tuple(tokens.value(_BYTE, "<B") for _ in range(4))
    except _UnfitError:
        return None
    major, minor, patch, build = version
    numbers = (major, minor, patch, build)
    try:
        if leads:
            tokens.skip_opening()
            lead = tokens.value(_U32, "<I")
            if lead:
                return Record(
                    numbers, None, f"built with a compatibility value of {lead}, not yet understood"
                )
    except _UnfitError:
        return Record(numbers, None, "a layout not known: no device record where it should be")
    for layout in _LAYOUTS:
        if layout.minor is not None and (major, minor) != (7, layout.minor):
            continue
        members = _members(layout, body, mark, tokens.at)
        if members is not None:
            device = _device(members)
            reason = "" if device else "the device record does not describe a GPU"
            return Record(numbers, device, reason, layout.name)
    return Record(numbers, None, "a device record of a layout not known")


def _members(layout: _Layout, body: bytes, mark: int, at: int) -> dict[str, int] | None:
    tokens = _Tokens(body, mark)
    tokens.at = at
    found: dict[str, int] = {}
    try:
        tokens.literal(layout.opens)
        for kind, name in zip(layout.types, layout.members.split(), strict=True):
            found[name] = tokens.value(int(kind, 16), _TYPES[kind])
        tokens.literal(layout.closes)
    except _UnfitError:
        return None
    return found


def _device(found: Mapping[str, int]) -> Device | None:
    """None where a member has a value that no GPU has."""
    for name, allowed in _ALWAYS.items():
        if name in found and found[name] not in allowed:
            return None
    capability = Capability(found["major"], found["minor"])
    reserved = found.get("reserved")
    if (
        found["clock"] not in _CLOCKS
        or found.get("persisting", 0) > found["l2"]
        or reserved not in (None, 1_024 if capability.major >= _AMPERE else 0)
    ):
        return None
    return Device(
        capability=capability,
        multiprocessors=found["sms"],
        bus=found["bus"],
        l2=found["l2"],
        shared_per_multiprocessor=found["per_sm"],
        integrated=bool(found["integrated"]) if "integrated" in found else None,
        memory=found.get("memory"),
    )
