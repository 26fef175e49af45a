"""The API server's side of the engine: requests in, their tokens out, and the news that the engine
is dead."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import asdict, replace
from typing import Any, Final

from enginechaos.sim.dialects.base import Iteration, Page
from enginechaos.sim.engine import Output, Request, StepReport
from enginechaos.sim.life import Life
from enginechaos.sim.wire import Wire


class EngineDead(Exception):  # noqa: N818
    """The engine can't answer any more."""


class EngineClient:
    def __init__(self, wire: Wire, page: Page):
        self._wire: Final = wire
        self._page: Final = page
        self._lives: dict[str, tuple[Life, asyncio.Queue[Output | None]]] = {}
        self.dead = False
        self.explained = False
        """The core said why it died."""

    @property
    def waiting(self) -> int:
        """Requests that have not ended."""
        return len(self._lives)

    async def generate(self, request: Request) -> AsyncIterator[Output]:
        """Its outputs as they come. Raises EngineDead; leaving it early aborts the request."""
        if self.dead:
            raise EngineDead
        life = Life(request, time.monotonic())
        queue: asyncio.Queue[Output | None] = asyncio.Queue()
        self._lives[request.id] = life, queue
        self._page.arrived()
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
            self._lives.pop(request.id, None)
            if not life.finished:
                self._page.finished(life, "error" if self.dead else "abort")
            if not life.finished and not self.dead:
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
        for _, queue in self._lives.values():
            queue.put_nowait(None)

    def _take(self, message: dict[str, Any]) -> None:
        now = time.monotonic()
        prompts: list[Life] = []
        gaps: list[float] = []
        ended: list[Life] = []
        generated = 0
        for found in message["outputs"]:
            output = Output(**found)
            life, queue = self._lives.get(output.id, (None, None))
            if life is None or queue is None:
                continue
            gap = life.take(output, now)
            generated += len(output.pieces)
            if gap is None:
                prompts.append(life)
            else:
                gaps.append(gap)
            if output.preemptions:
                self._page.preempted(output.preemptions)
            if output.finish:
                ended.append(life)
            queue.put_nowait(replace(output, pieces=tuple(output.pieces)))
        self._page.step(StepReport(**message["report"]), Iteration(prompts, generated, gaps))
        for life in ended:
            self._page.finished(life, life.finished or "stop")
