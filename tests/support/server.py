"""A real HTTP server on loopback for tests: any ASGI app, in a thread, on a free port."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import uvicorn

from enginechaos.receivers.server import QuietServer


@contextlib.contextmanager
def serve(app: Any, **settings: Any) -> Iterator[str]:
    """Run `app` and yield its base URL; `settings` go to uvicorn (ssl_certfile, …)."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="critical", lifespan="off", **settings)
    server = QuietServer(config)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    if not server.listening.wait(10):
        raise RuntimeError("the test server did not start within 10 s")
    scheme = "https" if settings.get("ssl_certfile") else "http"
    try:
        yield f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        server.force_exit = True
        thread.join(10)
        listener.close()
