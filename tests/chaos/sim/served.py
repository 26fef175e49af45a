"""A dialect's page over an engine in virtual time, scraped every five seconds of it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from prometheus_client import generate_latest
from tests.chaos.sim.virtual import Client

from enginechaos.sim.blocks import BlockPool
from enginechaos.sim.books import Books
from enginechaos.sim.dialects import find
from enginechaos.sim.engine import Engine, Request
from enginechaos.sim.language import Language
from enginechaos.sim.scheduler import Limits
from enginechaos.sim.settings import Settings
from enginechaos.sim.timing import Timing
from enginewatch.model import Labels
from enginewatch.recording import ScrapeEvent

EVERY = 5.0
SLOW = Timing(step=0.07, token=0.00041, attention=1.27e-7)


class Served:
    """Its clock starts now, since pages tell when their process began.

    Steps are six times as long as on the machine of the recordings, so that there are fewer.
    """

    def __init__(self, dialect: str, *, kv_tokens: int = 65_536):
        settings = Settings(dialect=dialect, model="demo")
        self.page: Any = find(settings).page
        self.books = Books(self.page)
        blocks = kv_tokens // 16 + 1
        self.page.cache_config(blocks)
        self.engine = Engine(Limits(2048, 256), BlockPool(blocks, 16), SLOW, Language(), 8192)
        self.now = 0.0
        self.clients: dict[str, Client] = {}
        self._start = int(time.time() * 1000)
        self._labels = Labels(
            {"instance": "127.0.0.1:8000", "job": "sim", "runtime": dialect.partition("-")[0]}
        )
        self._scraped = 0.0

    def join(self, clients: Sequence[Client]) -> None:
        for client in clients:
            self.clients[client.name] = client
            self._ask(client.request())

    def leave(self, clients: Sequence[Client]) -> None:
        for client in clients:
            del self.clients[client.name]
            name = f"{client.name}/{client.asked}"
            self.engine.abort(name)
            self.books.left(name, "abort")

    def run(self, seconds: float) -> Iterator[ScrapeEvent]:
        end = self.now + seconds
        while self.now < end:
            step = self.engine.schedule(self.now)
            if not step.shares:
                yield from self.stand_still(EVERY)
                continue
            then = self.now + self.engine.seconds(step)
            yield from self.stand_still(then - self.now)
            outputs, report = self.engine.complete(step)
            for output in self.books.take(report, outputs, self.now):
                client = self.clients[output.id.partition("/")[0]]
                client.take(output, self.now)
                if output.finish:
                    self.page.http("/v1/completions", "POST", 200, 1.0)
                    self._ask(client.request())

    def stand_still(self, seconds: float) -> Iterator[ScrapeEvent]:
        """Time goes by, and no step ends: a stopped rank, or one long step."""
        end = self.now + seconds
        while self._scraped + EVERY <= end:
            self._scraped += EVERY
            at = self._start + int(1000 * self._scraped)
            body = generate_latest(self.page.registry)
            yield ScrapeEvent(self._labels, at, body, 0.01, 200, "text/plain; version=0.0.4")
        self.now = end

    def _ask(self, request: Request) -> None:
        self.books.arrived(request, self.now)
        self.engine.add(request)
