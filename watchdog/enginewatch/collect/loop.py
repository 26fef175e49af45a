"""The life of one target: scrape after scrape, and what is known of the last one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from enginewatch.collect.gate import Gate
from enginewatch.collect.ingest import Ingest
from enginewatch.collect.scrape import Scraper
from enginewatch.collect.target import ScrapeTarget
from enginewatch.model import Millis
from enginewatch.recording import ScrapeEvent

_log = logging.getLogger(__name__)

_LARGE: Final = 256 * 1024
"""Bytes from which a page is parsed in a thread: one that was never seen takes tens of
milliseconds then, which other targets must not wait for."""

Observer = Callable[[ScrapeTarget, ScrapeEvent], None]


class Health(StrEnum):
    UP = "up"
    DOWN = "down"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class TargetState:
    """What is known of a target. `last_duration` is in seconds; `samples` were on the last page.

    `reason` is why the last scrape failed, in a word (`model.ScrapeFailure`);
    `warning` what is odd about a page that could be read. `skipped` counts
    scrapes that were left out because the one before had not ended.
    """

    target: ScrapeTarget
    health: Health = Health.UNKNOWN
    last_error: str = ""
    reason: str = ""
    warning: str = ""
    last_scrape: Millis | None = None
    last_duration: float = 0.0
    samples: int = 0
    skipped: int = 0


class TargetLoop:
    """Scrapes one target when told to, and never twice at a time."""

    def __init__(
        self,
        target: ScrapeTarget,
        scraper: Scraper,
        ingest: Ingest,
        gate: Gate,
        observers: Sequence[Observer] = (),
    ):
        self.target: Final = target
        self.state = TargetState(target)
        self._scraper: Final = scraper
        self._ingest: Final = ingest
        self._gate: Final = gate
        self._observers: Final = tuple(observers)
        self._busy = False
        self._closed = False

    @property
    def is_busy(self) -> bool:
        return self._busy

    async def run(self) -> None:
        """One scrape, from the request to the store."""
        if self._busy:
            self.state = replace(self.state, skipped=self.state.skipped + 1)
            return
        self._busy = True
        try:
            async with self._gate.place():
                await self._scrape()
        finally:
            self._busy = False

    async def close(self) -> None:
        """Let go of the connection; a scrape under way comes to nothing."""
        self._closed = True
        await self._scraper.close()

    async def _scrape(self) -> None:
        if self._closed:
            return
        event = await self._scraper.scrape()
        if self._closed:
            return
        if event.body is not None and len(event.body) >= _LARGE:
            outcome = await asyncio.to_thread(self._ingest.take, event)
        else:
            outcome = self._ingest.take(event)
        before, self.state = (
            self.state,
            replace(
                self.state,
                health=Health.DOWN if outcome.error else Health.UP,
                last_error=outcome.error,
                reason=outcome.reason,
                warning=outcome.warning,
                last_scrape=event.at,
                last_duration=event.duration,
                samples=outcome.samples,
            ),
        )
        self._tell(before)
        for observe in self._observers:
            observe(self.target, event)

    def _tell(self, before: TargetState) -> None:
        """Log what changed, once."""
        url, now = self.target.target.url, self.state
        if now.last_error and now.last_error != before.last_error:
            _log.warning("%s: %s", url, now.last_error)
        elif before.health is Health.DOWN and now.health is Health.UP:
            _log.info("%s: up again", url)
        if now.warning and now.warning != before.warning:
            _log.warning("%s: %s", url, now.warning)
