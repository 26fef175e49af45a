"""Opens what `diagnose` is pointed at: files, folders, pipes; bounded, never blocked for ever."""

from __future__ import annotations

import gzip
import lzma
import os
import select
import stat
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from io import BufferedIOBase, BufferedReader
from pathlib import Path
from typing import Final, cast

from enginewatch.evidence.errors import EvidenceError
from enginewatch.evidence.gather import Input

LONGEST_LINE: Final = 4 << 20
"""Bytes of a line that are kept, for long answers in JSON; log lines are cut at lines.LONGEST."""
MOST_FILES: Final = 1_000
DEEPEST: Final = 8
PIPE_PATIENCE: Final = 10.0
"""Seconds in which a pipe must bring its first byte."""

_CHUNK: Final = 1 << 20
_HEAD: Final = 8_192
_BINARY_SHARE: Final = 0.1
_WEIGHTS: Final = (
    ".safetensors",
    ".bin",
    ".pt",
    ".pth",
    ".gguf",
    ".onnx",
    ".engine",
    ".plan",
    ".so",
)
"""Never text, and too large to find that out: passed over in folders."""
_GZIP: Final = b"\x1f\x8b"
_XZ: Final = b"\xfd7zXZ\x00"


@dataclass(slots=True)
class Opened:
    """The inputs, what was left out and why, and the names of all files of the folders."""

    inputs: list[Input] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)


def open_inputs(paths: Sequence[Path], *, patience: float = PIPE_PATIENCE) -> Opened:
    """Inputs to be read one after another.

    Raises EvidenceError for a path that can't be read; what can't be read inside a
    folder is counted in a note.
    """
    opened = Opened()
    for path in paths:
        mode = _mode(path)
        if stat.S_ISDIR(mode):
            _open_folder(path, opened)
        elif stat.S_ISREG(mode):
            opened.inputs.append(_file(path, str(path), opened.notes))
        elif stat.S_ISFIFO(mode):
            opened.inputs.append(Input(str(path), _pipe_lines(path, patience)))
        else:
            hint = "give files, folders or pipes"
            raise EvidenceError("is no file, folder or pipe", where=str(path), hint=hint)
    return opened


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except OSError as failure:
        raise _unreadable(path, failure) from None


def _unreadable(path: Path | str, failure: OSError) -> EvidenceError:
    return EvidenceError(f"can't be read: {failure.strerror or failure}", where=str(path))


def _file(path: Path, name: str, notes: list[str]) -> Input:
    """A file that can be opened now; it is read when its turn comes."""
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD)
    except OSError as failure:
        raise _unreadable(path, failure) from None
    if _is_binary(head) and not head.startswith((_GZIP, _XZ)):
        notes.append(f"{name}: does not look like text, and was read as if it were")
    return Input(name, _file_lines(path, head, notes))


def _is_binary(head: bytes) -> bool:
    control = sum(byte < 32 and byte not in b"\t\n\r\x1b\x0c\x08" for byte in head)
    return control > _BINARY_SHARE * len(head)


def _open_folder(folder: Path, opened: Opened) -> None:
    skipped: dict[str, int] = {}

    def skip(why: str) -> None:
        skipped[why] = skipped.get(why, 0) + 1

    for path in _walk(folder, skip):
        name = str(path.relative_to(folder))
        opened.files.append(name)
        if len(opened.files) > MOST_FILES:
            opened.notes.append(f"{folder}: only the first {MOST_FILES} files were looked at")
            break
        if path.suffix in _WEIGHTS:
            skip("weights or engines")
            continue
        try:
            with path.open("rb") as stream:
                head = stream.read(_HEAD)
        except OSError:
            skip("unreadable")
            continue
        if _is_binary(head) and not head.startswith((_GZIP, _XZ)):
            skip("no text")
            continue
        opened.inputs.append(Input(str(path), _file_lines(path, head, opened.notes)))
    for why, count in skipped.items():
        opened.notes.append(f"{folder}: {count} passed over: {why}")


def _walk(folder: Path, skip: Callable[[str], None]) -> Iterator[Path]:
    """Regular files in the order of their names; links out of the folder are not followed."""
    for base, folders, names in os.walk(folder, onerror=lambda _: skip("unreadable folders")):
        depth = len(Path(base).relative_to(folder).parts)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if depth >= DEEPEST and folders:
            skip("too deep")
            folders.clear()
        for name in sorted(names):
            path = Path(base, name)
            try:
                regular = stat.S_ISREG(path.stat().st_mode)
            except OSError:
                regular = False
            if regular and not name.startswith("."):
                yield path
            else:
                skip("no regular files")


def _file_lines(path: Path, head: bytes, notes: list[str]) -> Iterator[bytes]:
    try:
        with _opened(path, head) as stream:
            # read1 gives what was unpacked before the place where an archive breaks off.
            yield from split_lines(iter(lambda: stream.read1(_CHUNK), b""))
    except (EOFError, zlib.error, lzma.LZMAError):
        notes.append(f"{path}: the compressed file is damaged or cut off; read up to there")
    except OSError as failure:
        notes.append(f"{path}: reading broke off: {failure.strerror or failure}")


def _opened(path: Path, head: bytes) -> BufferedIOBase:
    """For reading; compression is told by content."""
    if head.startswith(_GZIP):
        return gzip.GzipFile(path)
    if head.startswith(_XZ):
        # An LZMAFile has all that is asked of it here; its stub does not say so.
        return cast(BufferedIOBase, lzma.LZMAFile(path))
    return BufferedReader(path.open("rb", buffering=0), _CHUNK)


def _pipe_lines(path: Path, patience: float) -> Iterator[bytes]:
    """A pipe's lines. Raises EvidenceError when nobody writes to it in time."""
    try:
        # Without a writer, a blocking open would wait for one for ever.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as failure:
        raise _unreadable(path, failure) from None
    with os.fdopen(handle, "rb", buffering=0) as stream:
        ready, _, _ = select.select([handle], [], [], patience)
        first = stream.read(_CHUNK) if ready else None
        if not first:
            hint = "start the writer first, or give a file"
            raise EvidenceError("nobody writes to this pipe", where=str(path), hint=hint)
        os.set_blocking(handle, True)

        def chunks() -> Iterator[bytes]:
            yield first
            yield from iter(lambda: stream.read(_CHUNK), b"")

        yield from split_lines(chunks())


def split_lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Lines without their ends; of a line longer than `LONGEST_LINE` only the beginning."""
    rest = b""
    for chunk in chunks:
        pieces = chunk.split(b"\n")
        rest = _joined(rest, pieces[0])
        for piece in pieces[1:]:
            yield rest.removesuffix(b"\r")
            rest = piece
    if rest:
        yield rest


def _joined(start: bytes, more: bytes) -> bytes:
    return start if len(start) >= LONGEST_LINE else (start + more)[:LONGEST_LINE]
