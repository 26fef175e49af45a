"""What the fakes of providers have in common: they answer, or fail as told."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from enginechaos.receivers.inbox import Inbox


@dataclass(frozen=True)
class Trouble:
    """What becomes of requests: a late answer, or another status; nothing of it is taken."""

    status: int = 503
    body: str = "unavailable"
    seconds: float = 0.0
    retry_after: int | None = None

    def response(self) -> Response:
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        return PlainTextResponse(self.body, self.status, headers)


class Provider:
    """A receiver. While `trouble` is set it takes nothing; `attempts` counts all requests."""

    name: ClassVar[str]

    def __init__(self, inbox: Inbox):
        self.inbox: Final = inbox
        self.trouble: Trouble | None = None
        self.attempts = 0

    def settings(self, base: str) -> dict[str, Any]:
        """Its section in the watchdog's configuration, where it is served at `base`."""
        raise NotImplementedError

    def routes(self) -> list[Route]:
        raise NotImplementedError

    def post(self, path: str, handle: Callable[[Any, Request], Awaitable[Response]]) -> Route:
        """A route that takes JSON objects; `handle` is given the object."""

        async def answer(request: Request) -> Response:
            self.attempts += 1
            raw = await request.body()
            trouble = self.trouble
            if trouble is not None:
                await asyncio.sleep(trouble.seconds)
                return trouble.response()
            try:
                body = json.loads(raw)
            except ValueError:
                body = None
            if not isinstance(body, dict):
                return self.no("the body is not a JSON object")
            return await handle(body, request)

        return Route(path, answer, methods=["POST"])

    def no(self, reason: str, status: int = 400, body: dict[str, Any] | None = None) -> Response:
        """Refuse what breaks the contract, and remember that."""
        self.inbox.refuse(time.time(), self.name, reason)
        if body is not None:
            return JSONResponse(body, status)
        return PlainTextResponse(reason, status)
