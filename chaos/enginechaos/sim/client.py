"""The API server's side of the engine: requests in, their tokens out, and the news that the engine
is dead."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any, Final

from enginechaos.sim.books import Books
from enginechaos.sim.dialects.base import Page
from enginechaos.sim.engine import Output, Request, StepReport
from enginechaos.sim.wire import Wire


class EngineDead(Exception):  # noqa: N818
    """The engine can't answer any more."""


class EngineClient:
    def __init__(self, wire: Wire, page: Page):
        self._wire: Final = wire
        self._books: Final = Books(page)
        self._queues: dict[str, asyncio.Queue[Output | None]] = {}
        self.dead = False
        self.explained = False
        """The core said why it died."""

    @property
    def waiting(self) -> int:
        """Requests that have not ended."""
        return self._books.open

    async def generate(self, request: Request) -> AsyncIterator[Output]:
        """Its outputs as they come. Raises EngineDead; leaving it early aborts the request."""
        if self.dead:
            raise EngineDead
        queue = self._queues[request.id] = asyncio.Queue()
        self._books.arrived(request, time.monotonic())
        self._wire.send({"add": asdict(request)})
        try:
            while True:
                output = await queue.get()
                if output is None:
                    raise EngineDead
                yield output
                if output.finish:
                    return
        finally:
            del self._queues[request.id]
            unfinished = self._books.left(request.id, "error" if self.dead else "abort")
            if unfinished and not self.dead:
                self._wire.send({"abort": request.id})

    async def generate_one(self) -> bool:
        return await self.say(f"health-{uuid.uuid4().hex[:16]}", "health", 1) is not None

    async def say(self, name: str, prompt: str, limit: int) -> str | None:
        """The text of an answer; None where the engine is dead."""
        said: list[str] = []
        try:
            async for output in self.generate(Request(name, prompt, limit)):
                said += output.pieces
        except EngineDead:
            return None
        return "".join(said)

    async def listen(self) -> None:
        """Take what the engine core sends, until it is gone."""
        while (message := await self._wire.receive()) is not None:
            if "report" in message:
                self._take(message)
            elif message.get("dead"):
                self.explained = True
                break
        self.dead = True
        for queue in self._queues.values():
            queue.put_nowait(None)

    def _take(self, message: dict[str, Any]) -> None:
        outputs = [Output(**found) for found in message["outputs"]]
        report = StepReport(**message["report"])
        for output in self._books.take(report, outputs, time.monotonic()):
            self._queues[output.id].put_nowait(output)
