"""systemd's journal and the kernel's messages, as streams of lines that can be asked for more."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Protocol

from enginewatch.collect.tail import Lines
from enginewatch.config import Config

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
    """What `journalctl --follow` says, in its JSON. One that ends is not started again."""

    def __init__(
        self, units: tuple[str, ...], labels: Mapping[str, str], program: str = "journalctl"
    ):
        self.name = "journal"
        self.labels = labels
        self.problem = ""
        self._lines: Final = Lines()
        self._process: subprocess.Popen[bytes] | None = None
        found = shutil.which(program)
        if found is None:
            self.problem = "journal: there is no journalctl here"
            return
        command = [found, "--follow", "--lines=0", "--output=json", "--output-fields=MESSAGE"]
        command += [f"--unit={unit}" for unit in units]
        self._process = subprocess.Popen(  # noqa: S603 - units are checked by the configuration
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)

    def read(self, most: int) -> list[bytes]:
        if self._process is None or self._process.stdout is None or self.problem:
            return []
        try:
            piece = os.read(self._process.stdout.fileno(), most)
        except BlockingIOError:
            return []
        except OSError as failure:
            self.problem = f"journal: {failure.strerror or failure}"
            return []
        if not piece:
            self.problem = f"journal: journalctl ended with status {self._process.wait()}"
        return self._lines.feed(piece)

    def close(self) -> None:
        if self._process is None:
            return
        if self._process.stdout is not None:
            self._process.stdout.close()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()


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
