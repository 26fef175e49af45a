"""The ranks of one run: started, looked at through /proc and their progress files, and ended."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from enginechaos.embedded import free_port
from enginechaos.processes import GONE, stat

_STEPS_AT_FIRST: Final = 5


class StallError(Exception):
    """What keeps the experiment from meaning anything, in a sentence."""


@dataclass(frozen=True)
class Plan:
    """`gpus` is 0 for ranks on processors; several ranks may share a GPU."""

    python: str
    backend: str
    ranks: int
    gpus: int
    timeout: float
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def device(self) -> str:
        return "cuda" if self.gpus else "cpu"

    def environment_of(self, rank: int) -> dict[str, str]:
        """Of its process, beside this one's.

        NCCL refuses two ranks of one host on one GPU ("Duplicate GPU detected", init.cc). It tells
        hosts by NCCL_HOSTID: with one for each rank they are ranks of hosts of their own, and talk
        over sockets as such would.
        """
        if self.backend != "nccl" or self.ranks <= self.gpus:
            return dict(self.environment)
        alone = {"NCCL_HOSTID": f"host{rank}", "NCCL_NET": "Socket", "NCCL_SOCKET_IFNAME": "lo"}
        return {**self.environment, **alone}


@dataclass(frozen=True)
class Progress:
    """The last step that a rank has ended, when, and the slowest of the last ten seconds."""

    step: int = 0
    at: float = 0.0
    slowest: float = 0.0


class Group:
    """A context: the ranks run in it. None is waited for before its end, so that one that dies
    stays a zombie, as it does under an engine that has not noticed. Raises StallError."""

    def __init__(self, plan: Plan, folder: Path, *, starts_within: float = 180.0):
        self._plan: Final = plan
        self._patience: Final = starts_within
        self._processes: list[subprocess.Popen[bytes]] = []
        self.folder: Final = folder
        self.port: Final = free_port()

    @property
    def size(self) -> int:
        return self._plan.ranks

    def log(self, rank: int) -> Path:
        return self.folder / f"rank{rank}.log"

    def pid(self, rank: int) -> int:
        return self._processes[rank].pid

    def state(self, rank: int) -> str:
        """A letter of /proc/PID/stat; empty when it is gone."""
        found = stat(self.pid(rank))
        return found.state if found else ""

    def lives(self, rank: int) -> bool:
        return self.state(rank) not in GONE

    def signal(self, rank: int, number: int) -> None:
        """To a process that was not waited for, so that its number is still its own."""
        os.kill(self.pid(rank), number)

    def order(self, rank: int, what: str, seconds: float) -> None:
        """`busy` or `hold`, at the rank's next step."""
        path = self.folder / f"{what}.{rank}"
        new = path.with_suffix(f".{rank}.new")
        new.write_text(str(seconds))
        new.replace(path)

    def progress(self, rank: int) -> Progress:
        try:
            found = json.loads((self.folder / f"rank{rank}.json").read_text())
            return Progress(int(found["step"]), float(found["at"]), float(found["slowest"]))
        except (OSError, ValueError, KeyError):
            return Progress()

    def __enter__(self) -> Group:
        self.folder.mkdir(parents=True, exist_ok=True)
        store = free_port()
        try:
            self._processes = [self._start(rank, store) for rank in range(self.size)]
            self._wait()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Kill what is left, stopped or not, and wait for all."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait(60)

    def _start(self, rank: int, store: int) -> subprocess.Popen[bytes]:
        plan = self._plan
        options = {
            "rank": rank,
            "world": plan.ranks,
            "backend": plan.backend,
            "device": plan.device,
            "store": store,
            "port": self.port,
            "folder": self.folder,
            "timeout": plan.timeout,
        }
        command = [plan.python, "-m", "chaos.gpu.ranks"]
        command += [f"--{name}={value}" for name, value in options.items()]
        with self.log(rank).open("ab") as log:
            return subprocess.Popen(  # noqa: S603 - our own command
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **plan.environment_of(rank)},
            )

    def _wait(self) -> None:
        ends = time.monotonic() + self._patience
        while any(self.progress(rank).step < _STEPS_AT_FIRST for rank in range(self.size)):
            dead = [rank for rank in range(self.size) if not self.lives(rank)]
            if dead or time.monotonic() > ends:
                said = self.log(dead[0] if dead else 0).read_text(errors="replace").splitlines()
                raise StallError(f"the ranks did not start: {' | '.join(said[-3:])}")
            time.sleep(0.25)
