"""An ASGI app on a real port, served by a thread."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import uvicorn

from enginechaos.errors import TargetError


class QuietServer(uvicorn.Server):
    """Leaves signals to pytest, and says when it listens."""

    def __init__(self, config: uvicorn.Config):
        super().__init__(config)
        self.listening = threading.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()


class Server:
    """Serves `app` from `start` to `stop`; `url` is its base."""

    def __init__(self, app: Any, host: str = "127.0.0.1", port: int = 0):
        self._app = app
        self._address = (host, port)
        self._server: QuietServer | None = None
        self._thread: threading.Thread | None = None
        self.url = ""

    def start(self) -> None:
        """Raises TargetError when the address is taken."""
        try:
            listener = socket.create_server(self._address)
        except OSError as failure:
            host, port = self._address
            raise TargetError(
                f"receivers can't listen on {host}:{port}: {failure.strerror or failure}",
                hint="is another run listening there?",
            ) from None
        config = uvicorn.Config(self._app, log_config=None, access_log=False, lifespan="off")
        self._server = QuietServer(config)
        self._thread = threading.Thread(
            target=self._serve, args=(self._server, listener), name="receivers", daemon=True
        )
        self._thread.start()
        if not self._server.listening.wait(20):
            raise TargetError("the receivers' server did not start within 20 s")
        self.url = f"http://{self._address[0]}:{listener.getsockname()[1]}"

    def stop(self) -> None:
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._server.force_exit = True
            self._thread.join(10)

    @staticmethod
    def _serve(server: QuietServer, listener: socket.socket) -> None:
        with listener:
            server.run([listener])
