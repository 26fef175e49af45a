"""Reads a recording event by event, however long it is."""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import BinaryIO, Final, cast

from enginewatch.model import Labels, Millis
from enginewatch.recording.events import (
    HEADER,
    VERSION,
    Event,
    NoteEvent,
    RecordingError,
    SamplesEvent,
    ScrapeEvent,
    parse_attributes,
)
from enginewatch.units import parse_time

_SCRAPE: Final = b"# SCRAPE"
_SAMPLES: Final = b"# SAMPLES"
_NOTE: Final = b"# NOTE"
_TARGET: Final = b"# TARGET"
_NAMELESS: Final = "recording"
_GZIP: Final = b"\x1f\x8b"
_XZ: Final = b"\xfd7zXZ\x00"
"""What compressed files begin with."""


def read_recording(path: Path | str, *, tolerant: bool = False) -> Iterator[Event]:
    """The events of a recording in the order they were written; compression is told by content.

    A recording that was cut off is read up to its last whole page; then comes a
    RecordingError, unless `tolerant`. Raises RecordingError naming file and line
    for anything else that is wrong.
    """
    path = Path(path)
    try:
        with closing(_open(path)) as stream:
            yield from _Reader(str(path), stream).events(tolerant)
    except OSError as failure:
        reason = failure.strerror or str(failure)
        raise RecordingError(f"can't read the recording: {reason}", where=str(path)) from None


def _open(path: Path) -> BinaryIO:
    # Not by suffix: a recording in progress, or cut off, still has the one of a part.
    with path.open("rb") as start:
        magic = start.read(len(_XZ))
    if magic.startswith(_GZIP):
        return cast(BinaryIO, gzip.open(path, "rb"))
    if magic == _XZ:
        return cast(BinaryIO, lzma.open(path, "rb"))
    return path.open("rb")


class _CutOff(Exception):  # noqa: N818  a turn of the reader, never seen outside
    """The file ends in the middle of an event."""


class _Lines:
    """The lines of a stream, newline included, counted, with one step back."""

    def __init__(self, stream: BinaryIO):
        self._stream = stream
        self._again: bytes | None = None
        self.number = 0

    def next(self) -> bytes:
        """The next line; `b""` at the end. Raises _CutOff where compressed data break off."""
        line = self._again
        self._again = None
        if line is None:
            try:
                line = self._stream.readline()
            except (EOFError, lzma.LZMAError, zlib.error):
                raise _CutOff from None
        self.number += bool(line)
        return line

    def back(self, line: bytes) -> None:
        self._again = line
        self.number -= bool(line)


class _Reader:
    def __init__(self, path: str, stream: BinaryIO):
        self._path = path
        self._lines = _Lines(stream)
        self._targets: list[Labels] = []
        self._headed = False

    def events(self, tolerant: bool) -> Iterator[Event]:
        try:
            while line := self._lines.next():
                event = self._one(line)
                if event is not None:
                    yield event
        except _CutOff:
            if not tolerant:
                raise self._error(
                    "the recording was cut off here", hint="all before it can be read tolerantly"
                ) from None

    def _one(self, line: bytes) -> Event | None:
        directive = _directive(line)
        if directive is None:
            self._between(line)
            return None
        # A last line without its end may lack more than that. Not so in a file made by
        # hand, which the header tells.
        if self._headed and not line.endswith(b"\n"):
            raise _CutOff
        number = self._lines.number
        try:
            given = parse_attributes(line[len(directive) :].decode())
            if directive == _TARGET:
                self._targets.append(Labels(given))
                return None
            if directive == _NOTE:
                return NoteEvent(_time(given), given.get("text", ""))
            return self._samples(given) if directive == _SAMPLES else self._scrape(given)
        except ValueError as failure:
            raise self._error(f"{directive.decode()}: {failure}", number) from None

    def _between(self, line: bytes) -> None:
        """A line outside any page: the header, a comment, or a mistake."""
        if line.startswith(HEADER) and self._lines.number == 1:
            version = line[len(HEADER) :].strip().decode("utf-8", "replace")
            if version != str(VERSION):
                raise self._error(f"recording version {version!r}", hint=f"{VERSION} is read here")
            self._headed = True
        elif self._lines.number == 1 and (_GZIP.startswith(line) or _XZ.startswith(line)):
            raise _CutOff  # compressed, and no longer even by its first bytes
        elif line.strip() and not line.startswith(b"#"):
            raise self._error(
                "a line before the first # SCRAPE",
                hint="a single metrics page needs a line `# SCRAPE t=0` before it",
            )

    def _scrape(self, given: dict[str, str]) -> ScrapeEvent:
        error = given.get("error", "")
        at, labels = _time(given), self._target(given)
        duration, status = float(given.get("duration", 0)), int(given.get("status", 0))
        lines = given.get("lines")
        body = None if error else self._page(None if lines is None else int(lines))
        kind, reason = given.get("content_type", ""), given.get("reason", "")
        return ScrapeEvent(labels, at, body, duration, status, kind, error, reason)

    def _samples(self, given: dict[str, str]) -> SamplesEvent:
        at, labels, source = _time(given), self._target(given), given.get("source", "")
        if not source:
            raise ValueError("source= is missing, such as probe")
        lines = given.get("lines")
        return SamplesEvent(labels, at, source, self._page(None if lines is None else int(lines)))

    def _page(self, lines: int | None) -> bytes:
        """The page that follows; `lines` long, or up to the next directive."""
        page: list[bytes] = []
        while lines is None or len(page) < lines:
            line = self._lines.next()
            if lines is not None and not line.endswith(b"\n"):
                raise _CutOff
            if not line or (lines is None and _directive(line)):
                self._lines.back(line)
                break
            page.append(line)
        return b"".join(page)

    def _target(self, given: dict[str, str]) -> Labels:
        """The target meant by `target=` (its number) or `instance=`, or the only one there is."""
        if "target" in given:
            number = int(given["target"])
            if not 0 < number <= len(self._targets):
                raise ValueError(f"target={number}, but {len(self._targets)} were named so far")
            return self._targets[number - 1]
        instance = given.get("instance")
        known = [one for one in self._targets if instance in (None, one.get("instance"))]
        if len(known) > 1:
            raise ValueError("more than one target is meant: say which with target=1, 2, …")
        if known:
            return known[0]
        return Labels(instance=instance or _NAMELESS, job=_NAMELESS, deployment=_NAMELESS)

    def _error(self, what: str, number: int | None = None, *, hint: str = "") -> RecordingError:
        line = self._lines.number if number is None else number
        return RecordingError(what, where=f"{self._path}:{line}", hint=hint)


def _directive(line: bytes) -> bytes | None:
    for word in (_SCRAPE, _SAMPLES, _NOTE, _TARGET):
        if line.startswith(word) and line[len(word) : len(word) + 1] in (b" ", b"\n", b"\t", b""):
            return word
    return None


def _time(given: dict[str, str]) -> Millis:
    if "t" not in given:
        raise ValueError("t= is missing, the time in Unix seconds")
    return parse_time(given["t"])
