"""The FlatBuffers form of a plan, as TensorRT 5.0 wrote it.

It has no magic: a u64 with the file's length, then a FlatBuffer whose root table
holds a version table (field 1) and a device table (field 2). Worked out from two
public files, so the device counts only where its name, a model that is known, says
the same as its numbers.
"""

from __future__ import annotations

import struct
from typing import Final

from enginewatch.preflight.capability import Capability
from enginewatch.preflight.devices import Device
from enginewatch.preflight.readers.plan_record import Record

_BASE: Final = 8
_ROOT: Final = 0x20
_VERSION_FIELDS: Final = 4
_DEVICE_FIELDS: Final = 11
_LONGEST_NAME: Final = 64


def is_flat(head: bytes, size: int) -> bool:
    """Whether this can be the FlatBuffers form: its length and root stand where they must."""
    return len(head) >= _BASE + 4 and struct.unpack_from("<QI", head) == (size, _ROOT)


def read_flat(head: bytes) -> Record | None:
    """None where the tables are not of the known shape."""
    try:
        root = _Table(head, _BASE + _ROOT)
        version = root.table(1)
        device = root.table(2)
        if version.fields != _VERSION_FIELDS or device.fields != _DEVICE_FIELDS:
            return None
        major, minor, patch, build = (version.number(field, "<I") for field in range(4))
        return Record(
            (major, minor, patch, build),
            Device(
                capability=Capability(device.number(1, "<I"), device.number(2, "<I")),
                multiprocessors=device.number(8, "<I"),
                bus=device.number(5, "<I"),
                l2=device.number(7, "<Q"),
                integrated=bool(device.number(10, "<B")),
                memory=device.number(6, "<Q"),
                name=device.text(0),
            ),
            layout="F",
        )
    except (struct.error, UnicodeDecodeError, ValueError):
        return None


class _Table:
    """A FlatBuffers table. Raises struct.error for what lies outside the buffer."""

    def __init__(self, buffer: bytes, at: int):
        self._buffer: Final = buffer
        self._at: Final = at
        back = self._int("<i", at)
        self._vtable: Final = at - back
        self.fields: Final = (self._int("<H", self._vtable) - 4) // 2

    def number(self, field: int, form: str) -> int:
        """A field that is absent is 0."""
        place = self._place(field)
        return self._int(form, place) if place is not None else 0

    def table(self, field: int) -> _Table:
        return _Table(self._buffer, self._target(field))

    def text(self, field: int) -> str:
        at = self._target(field)
        length = self._int("<I", at)
        end = at + 4 + length
        if length > _LONGEST_NAME or end > len(self._buffer):
            raise ValueError("no such string")
        return self._buffer[at + 4 : end].decode("ascii")

    def _target(self, field: int) -> int:
        place = self._place(field)
        if place is None:
            raise ValueError("the field is absent")
        return place + self._int("<I", place)

    def _place(self, field: int) -> int | None:
        if field >= self.fields:
            return None
        offset = self._int("<H", self._vtable + 4 + 2 * field)
        return self._at + offset if offset else None

    def _int(self, form: str, at: int) -> int:
        if at < 0:
            raise ValueError("before the buffer")
        (found,) = struct.unpack_from(form, self._buffer, at)
        return int(found)
