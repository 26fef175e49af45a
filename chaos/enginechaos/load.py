"""A steady mixed load of OpenAI-compatible requests, with phases: quiet, and a flood beside it.

Closed loop: each client sends its next request when the last has ended, as chats do. All
that is random comes from one seed. It runs in a thread of its own, and stops with the test.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import threading
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import httpx

from enginechaos.errors import TargetError
from enginechaos.figures import Figures, Ledger

T = TypeVar("T")

_WORDS: Final = ("red", "fox", "runs", "past", "old", "mill", "over", "hill", "to", "town", "noon")


@dataclass(frozen=True)
class Mix:
    """What the clients of a phase send: lengths in tokens, roughly one a word."""

    clients: int = 4
    prompt: tuple[int, int] = (16, 160)
    answer: tuple[int, int] = (32, 128)
    pause: float = 0.2
    """Seconds on average between an answer and the next question."""
    timeout: float = 600.0


QUIET: Final = Mix()


@dataclass
class Load:
    """Clients of one engine. `start` it, and `stop` it at the end; `flood` and `calm` between."""

    url: str
    model: str
    seed: int = 0
    mix: Mix = QUIET
    headers: Mapping[str, str] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    """Of the quiet clients."""
    flooding: Ledger = field(default_factory=Ledger)
    """Of the flood's own."""

    def __post_init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread: threading.Thread | None = None
        self._client: httpx.AsyncClient | None = None
        self._quiet: list[asyncio.Task[None]] = []
        self._flood: list[asyncio.Task[None]] = []
        self.started_at = 0.0

    def start(self) -> None:
        self.started_at = time.time()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self._thread.start()
        self._quiet = self._in_loop(self._begin(self.mix, self.ledger, "quiet"))

    def stop(self) -> None:
        """End all requests and the thread."""
        if self._thread is None:
            self._loop.close()
            return
        self._in_loop(self._finish())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._thread = None
        self._loop.close()

    def flood(self, mix: Mix) -> None:
        """Send `mix` beside the quiet load until `calm`."""
        self._flood += self._in_loop(self._begin(mix, self.flooding, f"flood{len(self._flood)}"))

    def calm(self) -> None:
        """End the flood and take its requests back; may be called twice."""
        flood, self._flood = self._flood, []
        if self._thread is not None:
            self._in_loop(_cancelled(flood))

    def figures(self, seconds: float = 5.0, until: float | None = None) -> Figures:
        """Of the quiet clients, over the last `seconds`."""
        end = time.time() if until is None else until
        return self.ledger.figures(max(end - seconds, self.started_at), end)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _in_loop(self, work: Coroutine[Any, Any, T]) -> T:
        if self._thread is None:
            work.close()
            raise TargetError("the load was not started")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _begin(self, mix: Mix, ledger: Ledger, name: str) -> list[asyncio.Task[None]]:
        if self._client is None:
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
            self._client = httpx.AsyncClient(
                base_url=self.url, headers=dict(self.headers), limits=limits, trust_env=False
            )
        clients = (
            _Talker(self._client, self.model, mix, ledger, random.Random(f"{self.seed}/{name}/{n}"))
            for n in range(mix.clients)
        )
        return [asyncio.create_task(client.talk()) for client in clients]

    async def _finish(self) -> None:
        await _cancelled([*self._quiet, *self._flood])
        if self._client is not None:
            await self._client.aclose()


@dataclass
class _Talker:
    """One client in its closed loop."""

    client: httpx.AsyncClient
    model: str
    mix: Mix
    ledger: Ledger
    dice: random.Random

    async def talk(self) -> None:
        await asyncio.sleep(self.dice.random() * self.mix.pause)
        while True:
            request = self.ledger.begin(time.time())
            try:
                async with asyncio.timeout(self.mix.timeout):
                    await self._ask(request)
            except asyncio.CancelledError:
                self.ledger.forget(request)
                raise
            except (httpx.HTTPError, TimeoutError, ValueError) as failure:
                said = str(failure) or type(failure).__name__
                self.ledger.end(request, time.time(), said[:200])
                await asyncio.sleep(0.5)  # a client that is refused does not hammer
            else:
                self.ledger.end(request, time.time())
                await asyncio.sleep(self.dice.expovariate(1 / (self.mix.pause or 1e-9)))

    async def _ask(self, request: int) -> None:
        body = {
            "model": self.model,
            "prompt": " ".join(self.dice.choices(_WORDS, k=self.dice.randint(*self.mix.prompt))),
            "max_tokens": self.dice.randint(*self.mix.answer),
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
        }
        async with self.client.stream(
            "POST", "/v1/completions", json=body, timeout=self.mix.timeout
        ) as answer:
            if answer.status_code != httpx.codes.OK:
                text = (await answer.aread())[:200].decode(errors="replace")
                raise ValueError(f"{answer.status_code}: {text}")
            async for said in _events(answer):
                if said.get("error"):
                    raise ValueError(str(said["error"])[:200])
                if any(choice.get("text") for choice in said.get("choices", ())):
                    self.ledger.token(request, time.time())


async def _events(answer: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    """The JSON objects of a stream of server-sent events. Raises ValueError when it breaks off."""
    async for line in answer.aiter_lines():
        if not line.startswith("data:"):
            continue
        text = line.removeprefix("data:").strip()
        if text == "[DONE]":
            return
        found = json.loads(text)
        if isinstance(found, dict):
            yield found
    raise ValueError("the stream broke off before its end")


async def _cancelled(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError):
            await task
