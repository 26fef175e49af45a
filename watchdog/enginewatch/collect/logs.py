"""Follows the logs of a configuration, and writes down what the signatures find in them.

Of each log, `enginewatch_log_`: `lines_total` read, `lines_dropped_total` left out because too
many waited, `lines_passed_total` not read because many like them just were,
`lines_cut_total` of which only the start was looked at, and whether it is `readable`.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from enginewatch.collect.base import Write
from enginewatch.collect.journal import Stream, streams
from enginewatch.collect.logs_found import Found
from enginewatch.collect.tail import Lines, TailedFile, TailError
from enginewatch.config import Config, matching
from enginewatch.config.logs import LogFilesConfig
from enginewatch.evidence.reader import LogReader
from enginewatch.evidence.ring import EvidenceRing
from enginewatch.evidence.signatures import SignatureSet
from enginewatch.model import METRIC_NAME, Labels, Millis, Sample
from enginewatch.revive import keep_running

_log = logging.getLogger(__name__)

_TURN: Final = 0.25
"""Seconds from one look at all files to the next."""
_SHARE: Final = 0.4
"""Of a core, how much reading may take: what does not fit waits, and then is left out."""
_PIECE: Final = 256 * 1024
_BACKLOG: Final = 64 << 20
"""Bytes that may wait in a file. Beyond that the middle is left out, and counted."""
_KEPT: Final = 1 << 20
_LOOK_FOR_FILES: Final[Millis] = 5_000
_TELL: Final[Millis] = 5_000
_MOST_FILES: Final = 1_000


@dataclass
class _Source:
    """A log: where its lines come from, and how far it was understood."""

    name: str
    target: Labels
    reader: LogReader
    tail: TailedFile | None = None
    lines: int = 0
    problem: str = ""


class LogCollector:
    """Reads in a thread of its own, so that a storm of lines delays nothing but itself."""

    def __init__(
        self,
        config: Config,
        signatures: SignatureSet,
        write: Write,
        *,
        clock: Callable[[], Millis],
        ring: EvidenceRing,
        timer: Callable[[], float] = time.monotonic,
    ):
        self._files: Final = config.logs
        self._signatures: Final = signatures
        self._write: Final = write
        self._clock: Final = clock
        self._timer: Final = timer
        self._found: Final = Found(ring)
        self._sources: Final[dict[str, _Source]] = {}
        self._streams: Final[list[tuple[Stream, _Source]]] = [
            (stream, self._new(stream.name, Labels(stream.labels))) for stream in streams(config)
        ]
        self._thread: Final = ThreadPoolExecutor(1, thread_name_prefix="logs")
        self._task: asyncio.Task[None] | None = None
        self._looked: Millis | None = None
        self._told: Millis | None = None
        self._first = True

    def start(self) -> None:
        self._task = keep_running("logs", self._forever, pause=_TURN)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown()

    async def _forever(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await loop.run_in_executor(self._thread, self.turn)
            await asyncio.sleep(_TURN)

    # What follows runs in the thread.

    def turn(self) -> None:
        """Read what there is, for no longer than a turn's share of time; then tell."""
        now = self._clock()
        if self._looked is None or not 0 <= now - self._looked < _LOOK_FOR_FILES:
            self._looked = now
            self._look_for_files(now)
        began = self._timer()
        busy = True
        while busy and self._timer() - began < _TURN * _SHARE:
            busy = sum(self._read(source, now) for source in tuple(self._sources.values())) > 0
        self._shorten()
        for stream, source in self._streams:
            self._feed(source, stream.read(_PIECE), now)
            self._problem(source, stream.problem)
        for source in self._followed():
            for match in source.reader.tick(now):
                self._found.add(match, source.target, now)
        if self._told is None or not 0 <= now - self._told < _TELL:
            self._told = now
            self._write("logs", now, self._samples())

    def _read(self, source: _Source, now: Millis) -> bool:
        """Read a piece of a file; whether there may be more at once."""
        if source.tail is None:
            return False
        try:
            lines = source.tail.read(_PIECE)
        except TailError as failure:
            self._problem(source, str(failure))
            return False
        self._problem(source, "")
        self._feed(source, lines, now)
        return bool(lines) and source.tail.waiting() > 0

    def _feed(self, source: _Source, lines: Sequence[bytes], now: Millis) -> None:
        source.lines += len(lines)
        feed = source.reader.feed
        for line in lines:
            for match in feed(line, now):
                self._found.add(match, source.target, now)

    def _shorten(self) -> None:
        for source in self._sources.values():
            if source.tail is not None and source.tail.waiting() > _BACKLOG:
                count = source.tail.skip(_KEPT)
                _log.warning("%s: %d lines were left out: too many at once", source.name, count)

    def _look_for_files(self, now: Millis) -> None:
        """Begin with files that are new, and end with those that are gone for good."""
        wanted: dict[str, tuple[Path, LogFilesConfig]] = {}
        for entry in self._files:
            for pattern in entry.files:
                # A path that names nothing yet is waited for.
                for path in matching(pattern) or ([pattern] if "*" not in str(pattern) else []):
                    wanted.setdefault(str(path), (path, entry))
        for name in [n for n, s in self._sources.items() if s.tail and n not in wanted]:
            self._end(self._sources.pop(name), now)
        for name, (path, entry) in wanted.items():
            if name in self._sources or len(self._sources) >= _MOST_FILES:
                continue
            source = self._new(name, Labels(entry.labels))
            if path.suffix == ".gz":
                if entry.past and self._first:
                    self._read_past(source, path, now)
                continue
            source.tail = TailedFile(path, from_start=entry.past or not self._first)
            self._sources[name] = source
        self._first = False

    def _read_past(self, source: _Source, path: Path, now: Millis) -> None:
        """A rotated file, once and to its end."""
        lines = Lines()
        try:
            with gzip.open(path) as stream:
                while piece := stream.read1(_PIECE):
                    self._feed(source, lines.feed(piece), now)
        except (OSError, EOFError, zlib.error) as failure:
            _log.warning("%s: can't read the log: %s", path, failure)
        self._feed(source, lines.flush(), now)
        for match in source.reader.finish():
            self._found.add(match, source.target, now)

    def _end(self, source: _Source, now: Millis) -> None:
        for match in source.reader.finish():
            self._found.add(match, source.target, now)
        if source.tail is not None:
            source.tail.close()

    def _close(self) -> None:
        now = self._clock()
        for source in self._sources.values():
            self._end(source, now)
        for stream, _ in self._streams:
            stream.close()
        self._write("logs", now, ())

    def _new(self, name: str, target: Labels) -> _Source:
        year = datetime.fromtimestamp(self._clock() / 1000, UTC).year
        return _Source(name, target, LogReader(self._signatures, name, year=year))

    def _problem(self, source: _Source, problem: str) -> None:
        """Log what is wrong with a source when it begins, and when it is over."""
        if problem != source.problem:
            source.problem = problem
            if problem:
                _log.warning("not followed: %s", problem)
            else:
                _log.info("%s: followed again", source.name)

    def _followed(self) -> list[_Source]:
        return [*self._sources.values(), *(source for _, source in self._streams)]

    def _samples(self) -> Iterator[Sample]:
        yield from self._found.samples()
        for source in self._followed():
            dropped = source.tail.dropped if source.tail is not None else 0
            cut = source.reader.cut + (source.tail.cut if source.tail is not None else 0)
            labels = source.target.with_(source=source.name)
            for name, value in (
                ("lines_total", source.lines),
                ("lines_dropped_total", dropped),
                ("lines_cut_total", cut),
                ("lines_passed_total", source.reader.passed_lines),
                ("readable", not source.problem),
            ):
                named = labels.with_(**{METRIC_NAME: f"enginewatch_log_{name}"})
                yield Sample(named, float(value))
