"""Follows one log file through rotation and truncation, a bounded piece at a time.

Nothing here waits: a file is looked at when `read` is called. A FIFO is never
opened, because to open one is to wait for whoever writes to it.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from enginewatch.errors import EnginewatchError
from enginewatch.evidence.lines import LONGEST

_HEAD: Final = 256
"""Bytes at the start of a file by which it is known again after a `copytruncate`."""


class TailError(EnginewatchError):
    """A log that can't be followed; `where` is its path."""


class Lines:
    """Puts pieces of a stream together to lines, of which it keeps at most `lines.LONGEST` bytes.

    `cut` counts lines that were longer.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._overflows = False
        self.cut = 0

    def feed(self, piece: bytes) -> list[bytes]:
        """The lines that are whole now, without their ends."""
        *whole, rest = piece.split(b"\n")
        found: list[bytes] = []
        for end in whole:
            found.append(self._joined(end))
            self._rest, self._overflows = b"", False
        self._rest = self._joined(rest)
        return found

    def flush(self) -> list[bytes]:
        """What was written without an end: there will be none."""
        rest, self._rest, self._overflows = self._rest, b"", False
        return [rest] if rest else []

    def _joined(self, more: bytes) -> bytes:
        line = self._rest + more[: LONGEST + 1 - len(self._rest)]
        if len(self._rest) + len(more) > LONGEST:
            self.cut += not self._overflows
            self._overflows = True
            line = line[:LONGEST]
        return line


class TailedFile:
    """One path, whichever file it names now."""

    def __init__(self, path: Path, *, from_start: bool):
        """`from_start`: what is in the file already is read too."""
        self.path: Final = path
        self._from_start = from_start
        self._descriptor: int | None = None
        self._identity: tuple[int, int] | None = None
        self._offset = 0
        self._head = b""
        self._lines = Lines()
        self._cut_before = 0
        self.dropped = 0
        """Lines that were left out because too many were waiting."""

    @property
    def cut(self) -> int:
        return self._cut_before + self._lines.cut

    def read(self, most: int) -> list[bytes]:
        """The next lines, of at most so many bytes; none where there is nothing new.

        Raises TailError for what is no file, or can't be read.
        """
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return self._rest_of_the_last(most)
        except OSError as failure:
            raise self._error(failure) from None
        if not stat.S_ISREG(status.st_mode):
            self.close()
            raise TailError(_kind(status.st_mode), where=str(self.path), hint="only files are read")
        identity = (status.st_dev, status.st_ino)
        if self._descriptor is not None and identity != self._identity:
            lines = self._rest_of_the_last(most)
            if lines or self._descriptor is not None:
                return lines
        if self._descriptor is None:
            self._open(identity)
        elif self._was_rewritten(status.st_size):
            self._restart()
        return self._piece(most)

    def waiting(self) -> int:
        """Bytes that have not been read yet."""
        if self._descriptor is None:
            return 0
        return max(0, os.fstat(self._descriptor).st_size - self._offset)

    def skip(self, keep: int) -> int:
        """Leave out what waits, but for the last `keep` bytes; returns, and counts, the lines."""
        assert self._descriptor is not None
        end = self._offset + self.waiting() - keep
        skipped = 0
        while self._offset < end:
            piece = os.pread(self._descriptor, min(1 << 20, end - self._offset), self._offset)
            if not piece:
                break
            self._offset += len(piece)
            skipped += piece.count(b"\n")
        self._cut_before += self._lines.cut
        self._lines = Lines()
        self.dropped += skipped
        return skipped

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self, identity: tuple[int, int]) -> None:
        try:
            # Not to wait, should it have become a FIFO since it was looked at.
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as failure:
            raise self._error(failure) from None
        self._identity = identity
        self._restart()
        if not self._from_start:
            self._offset = os.fstat(self._descriptor).st_size
        # Every later file of this name is new from its first line on.
        self._from_start = True

    def _restart(self) -> None:
        assert self._descriptor is not None
        self._offset = 0
        self._head = os.pread(self._descriptor, _HEAD, 0)
        self._cut_before += self._lines.cut
        self._lines = Lines()

    def _was_rewritten(self, size: int) -> bool:
        """Whether the file was truncated, even if it has grown past where we were since."""
        assert self._descriptor is not None
        if size < self._offset:
            return True
        head = os.pread(self._descriptor, _HEAD, 0)
        if not head.startswith(self._head):
            return True
        self._head = head
        return False

    def _piece(self, most: int) -> list[bytes]:
        assert self._descriptor is not None
        try:
            piece = os.pread(self._descriptor, most, self._offset)
        except OSError as failure:
            raise self._error(failure) from None
        self._offset += len(piece)
        return self._lines.feed(piece)

    def _rest_of_the_last(self, most: int) -> list[bytes]:
        """What is left of a file that was moved away; it is let go when there is no more."""
        if self._descriptor is None:
            self._from_start = True  # one that comes later is new
            return []
        before = self._offset
        lines = self._piece(most)
        if self._offset == before:
            lines = self._lines.flush()
            self.close()
        return lines

    def _error(self, failure: OSError) -> TailError:
        self.close()
        return TailError(f"can't read the log: {failure.strerror or failure}", where=str(self.path))


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "the log is a directory"
    return "the log is a FIFO" if stat.S_ISFIFO(mode) else "the log is no file"
