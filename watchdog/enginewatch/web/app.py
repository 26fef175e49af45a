"""The API put together, and the server that carries it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import uvicorn
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.routing import Route

from enginewatch.alerting.judge import Judge
from enginewatch.errors import EnginewatchError
from enginewatch.model import Millis
from enginewatch.web.admin import Admin
from enginewatch.web.alert_page import AlertPages
from enginewatch.web.alertmanager_api import AlertmanagerApi
from enginewatch.web.desk import Desk
from enginewatch.web.pages import Pages, environment
from enginewatch.web.query_api import QueryApi
from enginewatch.web.silences_api import SilencesApi
from enginewatch.web.state_api import StateApi


@dataclass(frozen=True)
class Api:
    """What the HTTP API shows, each part as it is when asked.

    Without a `desk` there are no pages of alerts and no silences.
    """

    judge: Judge
    registry: CollectorRegistry
    targets: Callable[[], Iterable[Mapping[str, Any]]]
    clock: Callable[[], Millis]
    ailment: Callable[[], str | None]
    starting: Callable[[], str | None]
    reload: Callable[[], Awaitable[None]]
    token: Callable[[], str | None]
    desk: Desk | None = None

    def app(self) -> Starlette:
        judge = self.judge
        query = QueryApi(judge.head, lambda: judge.evaluator, self.clock)
        state = StateApi(
            lambda: judge.manager.status(), lambda: judge.manager.alerts(), self.targets
        )
        admin = Admin(self.registry, self.ailment, self.starting, self.reload, self.token)
        pages = Pages(
            lambda: judge.manager.alerts(),
            self.targets,
            judge.blind,
            self.ailment,
            self.clock,
            environment(),
        )
        routes = [*query.routes(), *state.routes(), *admin.routes(), *pages.routes()]
        if self.desk is not None:
            routes += self._of_the_desk(self.desk, admin)
        return Starlette(routes=routes)

    def _of_the_desk(self, desk: Desk, admin: Admin) -> Iterator[Route]:
        yield from AlertmanagerApi(desk, self.clock, since=self.clock()).routes()
        yield from SilencesApi(desk, self.clock, admin.refusal).routes()
        pages = AlertPages(desk, self.clock, admin.refusal, admin.needs_token, environment())
        yield from pages.routes()


class Server:
    """uvicorn in the caller's event loop; signals stay with the caller.

    `start` returns once it listens and raises EnginewatchError when it can't.
    """

    def __init__(self, app: Starlette, host: str, port: int):
        self._host: Final = host
        self._port: Final = port
        config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off")
        config.server_header = False
        self._server: Final = _Uvicorn(config)
        self._task: asyncio.Task[None] | None = None
        self.url = ""
        self.port = port

    async def start(self) -> None:
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
        try:
            listener = socket.create_server(
                (self._host, self._port), family=_family(self._host), backlog=2048
            )
        except OSError as failure:
            raise EnginewatchError(
                f"can't listen on {self._host}:{self._port}: {failure.strerror or failure}",
                where="web.listen",
                hint="is another enginewatch running? set web.listen to a free address",
            ) from None
        self.port = listener.getsockname()[1]
        host = f"[{self._host}]" if ":" in self._host else self._host
        self.url = f"http://{host}:{self.port}"
        self._task = asyncio.create_task(self._server.serve(sockets=[listener]), name="web")

    async def stop(self) -> None:
        self._server.should_exit = True
        if self._task is not None:
            # Long-lived requests may not hold up the end of the process.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._task, 5)


class _Uvicorn(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
