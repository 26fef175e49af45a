"""A staging world in miniature: an engine's page and ranks, and a watchdog that sees at once.

The watchdog here is a stand-in with the API and the webhook of the real one; what it watches is
whether a rank is stopped. So the whole life of a page takes a second.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from tests.support.server import serve

from enginechaos.embedded import free_port
from enginechaos.processes import Process, process, stat

DEPLOYMENT = "chat-staging"
VERDICT = "collective_hang"
RANK = "stand-in-rank"


@dataclass
class Engine:
    """Answers requests for one token while no rank is stopped."""

    ranks: list[Process]
    page: str = 'vllm:num_requests_running{model_name="m"} 0\n'
    healthy: bool = True

    def app(self) -> Starlette:
        async def metrics(_: Request) -> Response:
            return PlainTextResponse(self.page)

        async def completions(_: Request) -> Response:
            if not self.healthy or any(self.stopped()):
                return PlainTextResponse("no", 503)
            return JSONResponse({"choices": [{"text": "Hi"}]})

        return Starlette(
            routes=[
                Route("/metrics", metrics),
                Route("/v1/completions", completions, methods=["POST"]),
            ]
        )

    def stopped(self) -> Iterator[bool]:
        for rank in self.ranks:
            found = stat(rank.pid)
            yield found is not None and found.state == "T"


@dataclass
class Watchdog:
    """Sees a stopped rank, and tells `hook`. What it does wrong is up to the test."""

    engine: Engine
    hook: str
    deaf: bool = False
    severity: str = "page"
    twice: bool = False
    forgets: bool = False
    labels: dict[str, str] = field(default_factory=dict)
    also: str = ""
    """A verdict that it tells of, too."""
    mute_after: float | None = None
    """Seconds after its first answer from which its API is broken."""
    first_asked: float | None = None
    firing: bool = False
    ended: threading.Event = field(default_factory=threading.Event)

    def app(self) -> Starlette:
        async def alerts(_: Request) -> Response:
            now = time.monotonic()
            self.first_asked = self.first_asked or now
            if self.mute_after is not None and now - self.first_asked > self.mute_after:
                return PlainTextResponse("broken", 500)
            return _success({"alerts": [self.alert("firing")] if self.firing else []})

        async def targets(_: Request) -> Response:
            labels = {"deployment": DEPLOYMENT, "instance": "engine:8000", **self.labels}
            up = {"labels": labels, "health": "up", "lastError": ""}
            return _success({"activeTargets": [up]})

        async def query(request: Request) -> Response:
            value = {"metric": {}, "value": [0, "1" if self.firing else "0"]}
            return _success({"result": [value]})

        async def build(_: Request) -> Response:
            return _success({"version": "0-stand-in"})

        return Starlette(
            routes=[
                Route("/api/v1/alerts", alerts),
                Route("/api/v1/targets", targets),
                Route("/api/v1/query", query),
                Route("/api/v1/status/buildinfo", build),
            ]
        )

    def watch(self) -> None:
        while not self.ended.wait(0.05):
            stopped = any(self.engine.stopped()) and not self.deaf
            if stopped and not self.firing:
                self.firing = True
                self.tell("firing")
                if self.twice:
                    self.tell("firing")
                if self.also:
                    self.tell("firing", self.also)
            elif self.firing and not stopped:
                self.firing = False
                if not self.forgets:
                    self.tell("resolved")

    def alert(self, state: str, verdict: str = VERDICT) -> dict[str, Any]:
        labels = {
            "alertname": "EngineRankStopped",
            "verdict": verdict,
            "severity": self.severity,
            "deployment": DEPLOYMENT,
        }
        return {"labels": labels, "state": state, "activeAt": "2026-01-01T00:00:00Z"}

    def tell(self, status: str, verdict: str = VERDICT) -> None:
        alert = {
            "status": status,
            "labels": self.alert(status, verdict)["labels"],
            "annotations": {},
            "startsAt": "2026-01-01T00:00:00Z",
            "endsAt": "0001-01-01T00:00:00Z",
            "fingerprint": verdict,
        }
        body = {
            "version": "4",
            "groupKey": f"{{}}:{{{verdict}}}",
            "status": status,
            "receiver": "chaos",
            "externalURL": "",
            "alerts": [alert],
        }
        with contextlib.suppress(httpx.HTTPError):
            httpx.post(self.hook, json=body, trust_env=False)


@dataclass
class World:
    engine: Engine
    watchdog: Watchdog
    url: str
    watchdog_url: str
    port: int
    """Where the suite's receivers are to listen."""

    def settings(self, **changes: Any) -> dict[str, Any]:
        """A target file's keys for this world."""
        return {
            "environment": "staging",
            "name": DEPLOYMENT,
            "deployment": DEPLOYMENT,
            "engine": {"url": self.url, "model": "m"},
            "act": {"kind": "local"},
            "processes": {"rank": f"^{RANK}_(?P<rank>[0-9]+)"},
            "may_induce": [VERDICT],
            "limits": {"fault": 30, "run": 120, "steady": 3},
            "watchdog": {"url": self.watchdog_url},
            "receivers": {"listen": f"127.0.0.1:{self.port}", "names": ["webhook"]},
            "load": {"clients": 0},
            "budgets": {VERDICT: {"detect": 1.5, "deliver": 1.5, "resolve": 1.5}},
            **changes,
        }

    def write(self, path: Path, **changes: Any) -> Path:
        path.write_text(yaml.safe_dump(self.settings(**changes)))
        return path


@contextlib.contextmanager
def world(ranks: int = 2) -> Iterator[World]:
    with contextlib.ExitStack() as held:
        found = [held.enter_context(rank(number)) for number in range(ranks)]
        engine = Engine(found)
        port = free_port()
        watchdog = Watchdog(engine, f"http://127.0.0.1:{port}/webhook")
        url = held.enter_context(serve(engine.app()))
        watchdog_url = held.enter_context(serve(watchdog.app()))
        watching = threading.Thread(target=watchdog.watch, daemon=True)
        watching.start()
        yield World(engine, watchdog, url, watchdog_url, port)
        watchdog.ended.set()
        watching.join(5)


@contextlib.contextmanager
def rank(number: int) -> Iterator[Process]:
    """A process that does nothing, by a name that no watchdog on this machine takes for a rank."""
    command = [f"{RANK}_{number}", "-c", "import time; time.sleep(600)"]
    running = subprocess.Popen(command, executable=sys.executable)
    try:
        found = process(running.pid)
        deadline = time.monotonic() + 5
        while (found is None or not found.command) and time.monotonic() < deadline:
            time.sleep(0.01)
            found = process(running.pid)
        assert found is not None
        yield found
    finally:
        running.kill()
        running.wait(5)


def _success(data: dict[str, Any]) -> JSONResponse:
    return JSONResponse({"status": "success", "data": data})
