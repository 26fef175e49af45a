"""The API server process: starts the engine core, serves, and ends when the engine has died."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from enginechaos.processes import GONE, stat
from enginechaos.sim.api import Api
from enginechaos.sim.client import EngineClient
from enginechaos.sim.dialects import find
from enginechaos.sim.dialects.base import Page, ServerLog
from enginechaos.sim.driver import Driver
from enginechaos.sim.errors import SimError
from enginechaos.sim.proctitle import set_title
from enginechaos.sim.settings import Settings
from enginechaos.sim.wire import Wire

_STATS_INTERVAL: Final = 10.0
"""VLLM_LOG_STATS_INTERVAL."""


class Serve:
    """`ready` is called once it serves."""

    def __init__(self, settings: Settings, ready: Callable[[], None]):
        self._settings: Final = settings
        self._ready: Final = ready
        self._dialect: Final = find(settings)
        self._page: Final = self._dialect.page
        self._log: Final[ServerLog] = self._dialect.server_log()
        self._pids: list[int] = []

    async def run(self) -> int:
        """Until SIGTERM or the engine's death; the exit code."""
        set_title(self._dialect.titles.server)
        self._log.starting()
        with tempfile.TemporaryDirectory(prefix="enginechaos-gpu-") as folder:
            ranks = self._settings.tensor_parallel
            activity = [Path(folder) / f"rank{rank}" for rank in range(ranks)]
            driver = Driver(self._settings, activity)
            core, wire = await self._start_core(activity)
            first = await wire.receive()
            if first is None:
                await core.wait()
                self._log.start_failed()
                return 1
            self._pids = first["ready"]["pids"]
            self._page.cache_config(first["ready"]["blocks"])
            looking = asyncio.create_task(driver.run())
            client = EngineClient(wire, self._page)
            code = await self._serve(client)
            await self._end(core)
            looking.cancel()
            driver.end(self._pids)
            return code

    async def _serve(self, client: EngineClient) -> int:
        await asyncio.sleep(self._settings.startup_seconds)
        routes = [*self._dialect.routes(client), *Api(self._settings, client).routes()]
        app = _Counted(Starlette(routes=routes), self._page)
        server = _Server(
            self._ready,
            uvicorn.Config(
                app, host=self._settings.host, port=self._settings.port, timeout_keep_alive=60
            ),
        )
        self._log.serving()
        listening = asyncio.create_task(self._listen(client, server))
        periodic = asyncio.create_task(self._periodic())
        await server.serve(self._doors())
        for task in (listening, periodic):
            task.cancel()
        return 0  # also when the engine died: vllm#48966

    def _doors(self) -> list[socket.socket]:
        """Listening sockets: the API's, and the metrics' where that is another. Raises SimError."""
        doors = []
        for port in filter(None, (self._settings.port, self._dialect.metrics_port)):
            door = socket.socket()
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                door.bind((self._settings.host, port))
            except OSError as failure:
                raise SimError(
                    f"{failure.strerror}: port {port}", hint="another server?"
                ) from failure
            doors.append(door)
        return doors

    async def _listen(self, client: EngineClient, server: uvicorn.Server) -> None:
        await client.listen()
        self._log.engine_died(client.waiting, silently=not client.explained)
        if self._dialect.lingers >= 0:
            await asyncio.sleep(self._dialect.lingers)
            server.should_exit = True

    async def _periodic(self) -> None:
        while True:
            await asyncio.sleep(_STATS_INTERVAL)
            self._log.interval(_STATS_INTERVAL)

    async def _start_core(self, activity: list[Path]) -> tuple[asyncio.subprocess.Process, Wire]:
        own, theirs = socket.socketpair()
        wire = await Wire.open(own)
        core = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "enginechaos.sim.core", str(theirs.fileno())),
            pass_fds=(theirs.fileno(),),
        )
        theirs.close()
        watched = [str(each) if self._settings.gpu_file else "" for each in activity]
        wire.send({"settings": self._settings.model_dump(mode="json"), "activity": watched})
        return core, wire

    async def _end(self, core: asyncio.subprocess.Process) -> None:
        """The core ends when its socket does; who is left after that is killed, ranks too."""
        _signal(core.pid, signal.SIGTERM)
        killed: list[tuple[str, int]] = []
        try:
            await asyncio.wait_for(core.wait(), 2)
        except TimeoutError:
            killed.append((self._dialect.titles.core, core.pid))
            core.kill()
            await core.wait()
        for rank, pid in enumerate(pid for pid in self._pids if pid != core.pid):
            if _signal(pid, signal.SIGKILL):
                killed.append((self._dialect.titles.rank(rank), pid))
        self._log.shutdown(killed)


class _Server(uvicorn.Server):
    """Calls `ready` once it listens; a signal ends it and nothing else, so what comes after it is
    done."""

    def __init__(self, ready: Callable[[], None], config: uvicorn.Config):
        super().__init__(config)
        self._ready: Final = ready

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(each, self.handle_exit, each, None)
        yield
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(each)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()


class _Counted:
    """Tells the page of every request that has ended; a stream's when its last byte is out."""

    def __init__(self, app: ASGIApp, page: Page):
        self._app: Final = app
        self._page: Final = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = time.monotonic()
        status = 500

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            seconds = time.monotonic() - begun
            self._page.http(scope["path"], scope["method"], status, seconds)


def _signal(pid: int, which: signal.Signals) -> bool:
    """False where there is no such process, or only what is left of one."""
    found = stat(pid)
    if found is None or found.state in GONE:
        return False
    try:
        os.kill(pid, which)
    except ProcessLookupError:
        return False
    return True
