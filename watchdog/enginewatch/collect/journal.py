"""systemd's journal and the kernel's messages, as streams of lines that can be asked for more."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, Protocol

from enginewatch.collect.tail import Lines
from enginewatch.config import Config
from enginewatch.revive import REVIVAL

_KMSG: Final = Path("/dev/kmsg")
_RECORD: Final = 8192
"""The kernel gives a record at a time, and no record to a buffer that is too small for it."""


class Stream(Protocol):
    """Something that is followed and is no file. `problem` is why there is nothing to read."""

    name: str
    labels: Mapping[str, str]
    problem: str

    def read(self, most: int) -> list[bytes]:
        """The lines that came since, of about so many bytes. Never waits."""
        ...

    def close(self) -> None: ...


def streams(config: Config) -> Iterator[Stream]:
    """Those that a configuration asks for."""
    if config.journal is not None:
        yield Journal(config.journal.units, config.journal.labels)
    if config.kernel is not None:
        yield Kernel(config.kernel.labels)


class Journal:
    """What `journalctl --follow` says, in its JSON.

    One that ends is started anew after `REVIVAL` seconds, and goes on behind the last
    message that was read.
    """

    def __init__(
        self,
        units: tuple[str, ...],
        labels: Mapping[str, str],
        program: str = "journalctl",
        timer: Callable[[], float] = time.monotonic,
    ):
        self.name = "journal"
        self.labels = labels
        self.problem = ""
        self._units: Final = units
        self._timer: Final = timer
        self._program: Final = shutil.which(program)
        self._lines = Lines()
        self._last = b""
        self._process: subprocess.Popen[bytes] | None = None
        self._since = timer()
        if self._program is None:
            self.problem = "journal: there is no journalctl here"
        else:
            self._process = self._started(self._program)

    def read(self, most: int) -> list[bytes]:
        if self._process is None:
            self._revive()
        if self._process is None or self._process.stdout is None:
            return []
        try:
            piece = os.read(self._process.stdout.fileno(), most)
        except BlockingIOError:
            if self._timer() - self._since >= REVIVAL:
                self.problem = ""  # it lives, whether or not there is something to say
            return []
        except OSError as failure:
            return self._ended(f"journal: {failure.strerror or failure}")
        if not piece:
            return self._ended("")
        self.problem = ""
        lines = self._lines.feed(piece)
        if lines:
            self._last = lines[-1]
        return lines

    def close(self) -> None:
        if self._process is None:
            return
        if self._process.stdout is not None:
            self._process.stdout.close()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()

    def _started(self, program: str) -> subprocess.Popen[bytes]:
        """From now on, or from where the one before was. Raises OSError."""
        cursor, self._last = _cursor(self._last), b""
        behind = ["--no-tail", f"--after-cursor={cursor}"] if cursor else ["--lines=0"]
        command = [program, "--follow", *behind, "--output=json", "--output-fields=MESSAGE"]
        command += [f"--unit={unit}" for unit in self._units]
        process = subprocess.Popen(  # noqa: S603 - units are checked by the configuration
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        return process

    def _ended(self, problem: str) -> list[bytes]:
        process, self._process = self._process, None
        assert process is not None
        if process.stdout is not None:
            process.stdout.close()
        if process.poll() is None:
            process.kill()
        status = process.wait()
        self.problem = problem or f"journal: journalctl ended with status {status}"
        self._since = self._timer()
        self._lines, lines = Lines(), self._lines.flush()
        return lines

    def _revive(self) -> None:
        if self._program is None or self._timer() - self._since < REVIVAL:
            return
        self._since = self._timer()
        try:
            self._process = self._started(self._program)
        except OSError as failure:
            self.problem = f"journal: {failure.strerror or failure}"


def _cursor(line: bytes) -> str:
    """Where in the journal a message stands; nothing where a line does not tell."""
    try:
        message = json.loads(line)
    except ValueError:
        return ""
    cursor = message.get("__CURSOR") if isinstance(message, dict) else None
    return cursor if isinstance(cursor, str) else ""


class Kernel:
    """The kernel's ring buffer, from now on."""

    def __init__(self, labels: Mapping[str, str], path: Path = _KMSG):
        self.name = "kernel"
        self.labels = labels
        self.problem = ""
        self._descriptor: int | None = None
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._descriptor, 0, os.SEEK_END)
        except OSError as failure:
            self.problem = f"{path}: can't read the log: {failure.strerror or failure}"

    def read(self, most: int) -> list[bytes]:
        found: list[bytes] = []
        while self._descriptor is not None and sum(map(len, found)) < most:
            try:
                record = os.read(self._descriptor, _RECORD)
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue  # some were overwritten before they were read
            except OSError as failure:
                self.problem = f"kernel: {failure.strerror or failure}"
                break
            if not record:
                break
            found.append(kernel_line(record))
        return found

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def kernel_line(record: bytes) -> bytes:
    """A record of `/dev/kmsg` (`6,339,5140900,-;NVRM: ...`) as `dmesg` prints it."""
    head, _, message = record.partition(b";")
    text = message.split(b"\n", 1)[0]
    try:
        micros = int(head.split(b",")[2])
    except (IndexError, ValueError):
        return text
    return b"[%5d.%06d] %b" % (*divmod(micros, 1_000_000), text)
