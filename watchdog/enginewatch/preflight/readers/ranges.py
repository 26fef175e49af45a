"""Parts of a file that may be hundreds of gigabytes long: only what is asked for is read."""

from __future__ import annotations

import os
from typing import BinaryIO, Final


class ShortError(Exception):
    """The file ends before what was asked for."""


class Ranges:
    """A seekable stream read in pieces."""

    def __init__(self, stream: BinaryIO):
        self._stream: Final = stream
        self.size: Final = stream.seek(0, os.SEEK_END)

    def read(self, at: int, count: int) -> bytes:
        """Exactly `count` bytes. Raises ShortError, OSError."""
        if at < 0 or count < 0 or at + count > self.size:
            raise ShortError
        self._stream.seek(at)
        found = self._stream.read(count)
        if len(found) < count:
            raise ShortError
        return found
