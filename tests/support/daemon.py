"""A real daemon in a process of its own, an engine it scrapes, and a webhook it tells."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request as UrlRequest
from urllib.request import urlopen

import yaml
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

WITHIN = 60.0
"""Seconds that anything waited for may take: these tests share slow machines."""


class Engine:
    """Serves a page that the test writes."""

    def __init__(self, page: str = "temperature 5\n"):
        self.page = page
        self.status = 200

    def app(self) -> Starlette:
        async def metrics(_: Request) -> Response:
            return PlainTextResponse(self.page, status_code=self.status)

        return Starlette(routes=[Route("/metrics", metrics)])


class Hook:
    """Remembers what it was posted, and when; refuses as many posts as told first."""

    def __init__(self) -> None:
        self.received: list[dict[str, Any]] = []
        self.arrived: list[float] = []
        """Of each of `received`, in Unix seconds."""
        self.refuse = 0
        self.status = 503

    def app(self) -> Starlette:
        async def hook(request: Request) -> Response:
            body = await request.json()
            if self.refuse:
                self.refuse -= 1
                return PlainTextResponse("not now", status_code=self.status)
            self.arrived.append(time.time())
            self.received.append(body)
            return PlainTextResponse("ok")

        return Starlette(routes=[Route("/hook", hook, methods=["POST"])])

    def told(self) -> list[tuple[str, str]]:
        """(status, alertname) of every alert received, in order."""
        return [
            (alert["status"], alert["labels"]["alertname"])
            for body in self.received
            for alert in body["alerts"]
        ]

    def first(self, alertname: str, status: str = "firing") -> float | None:
        """When it was first told of, in Unix seconds."""
        for at, body in zip(self.arrived, self.received, strict=False):
            for alert in body["alerts"]:
                if (alert["labels"]["alertname"], alert["status"]) == (alertname, status):
                    return at
        return None


class Daemon:
    """`enginewatch run -c FILE`, once it listens; `url` is its API."""

    def __init__(self, process: subprocess.Popen[str], url: str, log: Path):
        self.process = process
        self.url = url
        self._log = log

    @property
    def log(self) -> str:
        return self._log.read_text()

    def get(self, path: str, **params: str) -> Any:
        query = f"?{urlencode(params)}" if params else ""
        with urlopen(f"{self.url}{path}{query}", timeout=WITHIN) as answer:
            return json.load(answer)

    def values(self, expr: str) -> dict[str, float]:
        """The value of each series that `expr` gives now, by its labels as JSON."""
        found = self.get("/api/v1/query", query=expr)["data"]["result"]
        return {json.dumps(one["metric"], sort_keys=True): float(one["value"][1]) for one in found}

    def value(self, expr: str) -> float | None:
        """Of the first one."""
        return next(iter(self.values(expr).values()), None)

    def post(self, path: str, headers: dict[str, str] | None = None) -> tuple[int, str]:
        request = UrlRequest(f"{self.url}{path}", method="POST", headers=headers or {})
        try:
            with urlopen(request, timeout=WITHIN) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(WITHIN)

    def kill(self) -> None:
        """SIGKILL, and until it is gone."""
        self.process.kill()
        self.process.wait()


def eventually(probe: Callable[[], Any], what: str) -> Any:
    """The first true answer of `probe`; fails the test when there is none in time."""
    deadline = time.monotonic() + WITHIN
    while time.monotonic() < deadline:
        answer = probe()
        if answer:
            return answer
        time.sleep(0.05)
    raise AssertionError(f"not within {WITHIN:g} s: {what}")


def write_config(path: Path, settings: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(settings))
    return path


@contextlib.contextmanager
def running(
    config: Path, *arguments: str, program: Sequence[str] = ("enginewatch",)
) -> Iterator[Daemon]:
    """Start the daemon and wait until it says where it listens; killed at the end if need be.

    `program` is the module that runs it, and what that module is told first.
    """
    log = config.with_suffix(".log")
    command = [sys.executable, "-m", *program, "run", "-c", str(config), *arguments]
    with log.open("a") as errors:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        if "API at " not in first:
            process.wait(WITHIN)
            raise AssertionError(f"the daemon did not start: {first}{log.read_text()}")
        yield Daemon(process, first.rsplit("API at ", 1)[1].strip(), log)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(WITHIN)
        if process.stdout is not None:
            process.stdout.close()
