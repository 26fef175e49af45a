"""How a step is computed: by the engine core itself with one rank, else by processes that must all
answer."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

from enginechaos.sim.activity import Activity
from enginechaos.sim.rank import ANSWER, COMMAND, READY
from enginechaos.sim.settings import Settings


class RankDied(Exception):  # noqa: N818
    """A rank is gone: its number and exit code."""

    def __init__(self, rank: int, code: int):
        super().__init__(rank, code)
        self.rank = rank
        self.code = code


class Executor(Protocol):
    pids: Sequence[int]
    """The processes that compute, one a GPU."""

    async def start(self) -> None: ...

    async def run(self, seconds: float) -> None:
        """Compute one step. Raises TimeoutError after the execute-model timeout, and RankDied."""

    async def stop(self) -> None: ...


class InProcess:
    """One rank, without a deadline for a step, as vLLM's uniproc executor."""

    def __init__(self, activity: Path | None):
        self.pids: Sequence[int] = (os.getpid(),)
        self._gpu: Final = Activity(str(activity or ""))

    async def start(self) -> None:
        pass

    async def run(self, seconds: float) -> None:
        self._gpu.works(seconds)
        await asyncio.sleep(seconds)
        self._gpu.rests()

    async def stop(self) -> None:
        self._gpu.__exit__()


class Processes:
    """`titles` one a rank; `patience` is called every ringbuffer interval that a step has not ended
    in."""

    def __init__(
        self,
        settings: Settings,
        titles: Sequence[str],
        activity: Sequence[Path | None],
        *,
        timeout: float | None,
        hears_of_dead: bool,
        patience: Callable[[], None],
    ):
        self.pids: Sequence[int] = ()
        self._settings: Final = settings
        self._titles: Final = titles
        self._activity: Final = activity
        self._patience: Final = patience
        self._timeout: Final = timeout
        self._hears_of_dead: Final = hears_of_dead
        self._children: list[asyncio.subprocess.Process] = []
        self._sockets: list[socket.socket] = []
        self._step = 0
        self._folder: Final = tempfile.TemporaryDirectory(prefix="enginechaos-ranks-")

    async def start(self) -> None:
        """Start all ranks and wait until they have met. Raises RankDied."""
        for rank in range(len(self._titles)):
            await self._spawn(rank)
        self.pids = tuple(child.pid for child in self._children)
        (port,) = ANSWER.unpack(await self._read(0))
        for other in range(1, len(self._sockets)):
            await self._send(other, ANSWER.pack(port))
        for rank in range(len(self._sockets)):
            await self._read(rank, READY)

    async def run(self, seconds: float) -> None:
        self._step += 1
        command = COMMAND.pack(self._step, seconds, self._settings.ranks.collectives)
        for rank in range(len(self._sockets)):
            await self._send(rank, command)
        work = asyncio.gather(*(self._read(rank, self._step) for rank in range(len(self._sockets))))
        left = float("inf") if self._timeout is None else self._timeout
        while left > 0:
            patience = min(self._settings.ringbuffer_warning_interval, left)
            done, _ = await asyncio.wait((work,), timeout=patience)
            if done:
                work.result()
                return
            left -= patience
            self._patience()
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work
        raise TimeoutError

    async def stop(self) -> None:
        """End all ranks; one that is stopped is killed."""
        for each in self._sockets:
            each.close()
        for child in self._children:
            try:
                await asyncio.wait_for(child.wait(), 1)
            except TimeoutError:
                child.kill()
                await child.wait()
        self._folder.cleanup()

    async def _spawn(self, rank: int) -> None:
        own, theirs = socket.socketpair()
        own.setblocking(False)
        link = self._settings.ranks
        address = str(Path(self._folder.name) / "collective")
        if link.link == "tcp":
            address = link.listen if rank == 0 else link.through or link.listen
        before = link.launch[rank] if rank < len(link.launch) else ()
        arguments = (
            *(str(theirs.fileno()), str(rank), str(len(self._titles)), link.link, address),
            *(str(self._activity[rank] or ""), self._titles[rank]),
        )
        child = await asyncio.create_subprocess_exec(
            *(*before, sys.executable, "-m", "enginechaos.sim.rank", *arguments),
            pass_fds=(theirs.fileno(),),
        )
        theirs.close()
        self._children.append(child)
        self._sockets.append(own)

    async def _send(self, rank: int, message: bytes) -> None:
        try:
            await asyncio.get_running_loop().sock_sendall(self._sockets[rank], message)
        except ConnectionError:
            await self._gone(rank)

    async def _read(self, rank: int, expected: int | None = None) -> bytes:
        """One answer of a rank, the `expected` number if one is given."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                found = await loop.sock_recv(self._sockets[rank], ANSWER.size)
            except ConnectionError:
                found = b""
            if len(found) < ANSWER.size:
                await self._gone(rank)
            if expected is None or struct.unpack("!Q", found) == (expected,):
                return found

    async def _gone(self, rank: int) -> None:
        """A rank that has died; where nobody is told of that, its answer just never comes."""
        code = await self._children[rank].wait()
        if self._step and not self._hears_of_dead:
            await asyncio.Event().wait()
        raise RankDied(rank, code)
