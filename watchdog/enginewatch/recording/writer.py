"""Writes a recording that is whole at every moment."""

from __future__ import annotations

import gzip
import lzma
import os
import shutil
from collections import Counter
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from enginewatch.model import Labels, Millis, quote
from enginewatch.recording.events import (
    HEADER,
    VERSION,
    RecordingError,
    SamplesEvent,
    ScrapeEvent,
    format_attributes,
)


class RecordingWriter:
    """Writes events to `path` with `.part` at its end, and gives it its name when closed.

    After each event the file can be read up to there, whatever happens to the
    process. `.gz` is compressed as it is written; `.xz` can't be flushed in the
    middle and is compressed at the end.

    Raises RecordingError when the file can't be made, or is there already, and when
    it can't be written any more: then it ends with the last event that was whole.
    """

    def __init__(self, path: Path | str):
        self.path: Final = Path(path)
        self._part: Final = self.path.with_name(f"{self.path.name}.part")
        self._targets: Final[dict[Labels, int]] = {}
        self._instances: Final[Counter[str]] = Counter()
        for taken in (self.path, self._part):
            if taken.exists():
                raise RecordingError(
                    "the file exists", where=str(taken), hint="give another name, or remove it"
                )
        try:
            raw = self._part.open("xb")
        except OSError as failure:
            reason = failure.strerror or str(failure)
            raise RecordingError(f"can't write: {reason}", where=str(self._part)) from None
        packed = self.path.suffix == ".gz"
        self._raw: Final = raw
        self._stream: Final = gzip.GzipFile(fileobj=raw, mode="wb") if packed else raw
        self._whole = 0
        self._write(HEADER + f"{VERSION}\n".encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # On an interrupt too: what was recorded until then is what was wanted.
        self.close()

    def scrape(self, event: ScrapeEvent) -> None:
        """Add a page, or the error that came instead."""
        attributes = [("t", _seconds(event.at)), *self._whose(event.labels)]
        attributes.append(("duration", f"{event.duration:.6g}"))
        if event.status:
            attributes.append(("status", str(event.status)))
        if event.content_type:
            attributes.append(("content_type", quote(event.content_type)))
        page = _ended(event.body or b"")
        if event.body is None:
            attributes.append(("error", quote(event.error or "no page")))
            if event.reason:
                attributes.append(("reason", event.reason))
        else:
            attributes.append(("lines", str(page.count(b"\n"))))
        self._write(f"# SCRAPE {format_attributes(attributes)}\n".encode() + page)

    def samples(self, event: SamplesEvent) -> None:
        """Add a round of a collector beside the scrape."""
        page = _ended(event.body)
        attributes = [
            ("t", _seconds(event.at)),
            ("source", quote(event.source)),
            *self._whose(event.labels),
            ("lines", str(page.count(b"\n"))),
        ]
        self._write(f"# SAMPLES {format_attributes(attributes)}\n".encode() + page)

    def note(self, at: Millis, text: str) -> None:
        attributes = [("t", _seconds(at)), ("text", quote(text))]
        self._write(f"# NOTE {format_attributes(attributes)}\n".encode())

    def close(self) -> None:
        """Finish the file and give it its name. Does nothing the second time."""
        if self._raw.closed:
            return
        try:
            self._stream.close()
            self._raw.close()
            if self.path.suffix == ".xz":
                self._pack()
        except OSError as failure:
            raise self._failed(failure) from None
        if self.path.suffix != ".xz":
            self._part.replace(self.path)

    def _pack(self) -> None:
        packed = self._part.with_name(f"{self._part.name}.xz")
        try:
            with self._part.open("rb") as plain, lzma.open(packed, "wb", preset=9) as out:
                shutil.copyfileobj(plain, out)
        except OSError:
            packed.unlink(missing_ok=True)
            raise
        packed.replace(self.path)
        self._part.unlink()

    def _whose(self, labels: Labels) -> list[tuple[str, str]]:
        """What tells an event's target."""
        number = self._target(labels)
        instance = labels.get("instance", "")
        named = [("instance", quote(instance))]
        return [*named, ("target", str(number))] if self._instances[instance] > 1 else named

    def _target(self, labels: Labels) -> int:
        """The number of a target, counted from 1; it is written down when it is new."""
        number = self._targets.get(labels)
        if number is None:
            number = self._targets[labels] = len(self._targets) + 1
            self._instances[labels.get("instance", "")] += 1
            named = format_attributes((name, quote(value)) for name, value in labels.items())
            self._write(f"# TARGET {named}\n".encode())
        return number

    def _write(self, data: bytes) -> None:
        try:
            self._stream.write(data)
            self._stream.flush()
        except OSError as failure:
            self._abandon()
            raise self._failed(failure) from None
        self._whole = self._raw.tell()

    def _abandon(self) -> None:
        """Leave the file under its present name, without what was written of the last event."""
        for stream in (self._stream, self._raw):
            with suppress(OSError):  # of what is still buffered, again
                stream.close()
        with suppress(OSError):
            os.truncate(self._part, self._whole)

    def _failed(self, failure: OSError) -> RecordingError:
        return RecordingError(
            f"can't write: {failure.strerror or failure}",
            where=str(self.path),
            hint=f"what was recorded until then is in {self._part}",
        )


def _ended(page: bytes) -> bytes:
    return page + b"\n" if page and not page.endswith(b"\n") else page


def _seconds(at: Millis) -> str:
    return f"{at // 1000}.{at % 1000:03d}" if at >= 0 else f"{at / 1000:.3f}"
