"""Scrapes all targets, each at its own moment of the interval, as they come and go."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import httpx
from apscheduler.executors.debug import DebugExecutor
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from enginewatch.collect.deadline import LagClock
from enginewatch.collect.discovery import Discovery
from enginewatch.collect.gate import Gate
from enginewatch.collect.http import TlsSettings
from enginewatch.collect.ingest import Ingest
from enginewatch.collect.loop import Observer, TargetLoop, TargetState
from enginewatch.collect.schedule import ClockWatch, EveryInterval
from enginewatch.collect.scrape import Scraper, steady_clock, wall_clock
from enginewatch.collect.target import ScrapeTarget
from enginewatch.config import TlsConfig
from enginewatch.exposition import Limits, PageCache, PageReader
from enginewatch.model import Labels, Millis
from enginewatch.store.head import Head

_log = logging.getLogger(__name__)

_TICK: Final = 1.0
"""Seconds between looks at the clock and at the target files."""

_FIRST_APART: Final = 4
"""Milliseconds between the first scrapes of new targets. One is scraped at once, since
whoever adds it wants to see it; a thousand are not, since each costs that much: a
connection to make, and a page that was never seen."""

Transports = Callable[[ScrapeTarget], httpx.AsyncBaseTransport]


def log_failure(failure: BaseException) -> None:
    _log.error("a scrape failed in a way that is a defect of enginewatch", exc_info=failure)


class ScrapePool:
    """Keeps one loop a target and a job in the scheduler for each.

    Everything happens in the event loop that calls `start()`. `wanted` tells by
    name which series the store keeps; `observers` see every scrape. `on_failure` is
    told what an observer raised; the pool goes on.
    """

    def __init__(
        self,
        head: Head,
        *,
        wanted: Callable[[str], bool] = lambda _: True,
        observers: Sequence[Observer] = (),
        on_failure: Callable[[BaseException], None] = log_failure,
        transports: Transports | None = None,
        clock: Callable[[], Millis] = wall_clock,
    ):
        self._head: Final = head
        self._wanted: Final = wanted
        self._observers: Final = tuple(observers)
        self._on_failure: Final = on_failure
        self._transports: Final = transports
        self._clock: Final = clock
        # A job only starts a task, so it may as well run where the scheduler does.
        executors = {"default": DebugExecutor()}
        self._scheduler: Final = AsyncIOScheduler(executors=executors, timezone=UTC)
        self._lag: Final = LagClock()
        self._gate: Final = Gate(self._lag)
        self._loops: Final[dict[Labels, TargetLoop]] = {}
        self._in_order: tuple[TargetLoop, ...] = ()
        self._caches: Final[dict[Limits, PageCache]] = {}
        self._tls: Final[dict[TlsConfig, TlsSettings]] = {}
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._discovery: Discovery | None = None
        self._followed: Sequence[ScrapeTarget] | None = None
        self.problems: tuple[str, ...] = ()
        """What is wrong with target files and groups now."""

    def start(self) -> None:
        # It tells at INFO of each job it starts and ends: twice a scrape.
        logging.getLogger("apscheduler").setLevel(logging.WARNING)
        self._scheduler.start()
        self._spawn(self._lag.run())
        self._spawn(self._tick())

    async def stop(self) -> None:
        """Drop scrapes under way and close connections. What was scraped stays in the store."""
        if self._scheduler.running:
            self._scheduler.remove_all_jobs()
            self._scheduler.shutdown(wait=False)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(loop.close() for loop in self._loops.values()))

    def follow(self, discovery: Discovery) -> None:
        """Scrape what this finds, from now on; also when the configuration was loaded again."""
        self._discovery = discovery
        self._look()

    def sync(self, targets: Sequence[ScrapeTarget]) -> None:
        """Scrape exactly these targets.

        One that is scraped already, in the same way, keeps its schedule, connection
        and cache; one that is not among them any more has its series end.
        """
        wanted = {one.target.labels for one in targets}
        for labels in self._loops.keys() - wanted:
            self._drop(labels)
            self._head.source(_key(labels)).remove(self._clock())
        changed = [one for one in targets if not self._is_running(one)]
        for target in changed:
            if target.target.labels in self._loops:
                self._drop(target.target.labels)
            window = min(len(changed) * _FIRST_APART, target.interval)
            self._add(target, target.offset * window // target.interval)
        self._in_order = tuple(loop for _, loop in sorted(self._loops.items()))

    def hurry(self, labels: Labels) -> None:
        """Scrape the target of these labels at once, unless it is being scraped."""
        loop = self._loops.get(labels)
        if loop is not None and not loop.is_busy:
            self._begin(loop)

    def states(self) -> list[TargetState]:
        """All targets, in the order of their labels. May be asked from any thread."""
        return [loop.state for loop in self._in_order]

    def _is_running(self, target: ScrapeTarget) -> bool:
        loop = self._loops.get(target.target.labels)
        return loop is not None and loop.target == target

    def _add(self, target: ScrapeTarget, delay: Millis) -> None:
        """Begin with a target, after so long."""
        labels, limits = target.target.labels, target.limits
        cache = self._caches.setdefault(limits, PageCache(limits))
        tls = self._tls.setdefault(target.job.tls_config, TlsSettings(target.job.tls_config))
        loop = TargetLoop(
            target,
            Scraper(
                target,
                tls,
                transport=None if self._transports is None else self._transports(target),
                clock=self._clock,
                lag=self._lag,
            ),
            Ingest(
                labels,
                self._head.source(_key(labels)),
                PageReader(cache),
                honor_labels=target.job.honor_labels,
                wanted=self._wanted,
                describe=self._head.update_metadata,
            ),
            self._gate,
            self._observers,
        )
        self._loops[labels] = loop
        self._scheduler.add_job(
            self._begin,
            EveryInterval(target.interval, target.offset),
            args=(loop,),
            id=repr(labels),
            next_run_time=datetime.now(UTC) + timedelta(milliseconds=delay),
            misfire_grace_time=None,
        )

    def _drop(self, labels: Labels) -> None:
        loop = self._loops.pop(labels)
        self._scheduler.remove_job(repr(labels))
        self._spawn(loop.close())

    def _begin(self, loop: TargetLoop) -> None:
        self._spawn(loop.run())

    async def _tick(self) -> None:
        watch = ClockWatch(self._clock(), steady_clock())
        while True:
            await asyncio.sleep(_TICK)
            self._look()
            if watch.stepped(self._clock(), steady_clock()):
                _log.warning("the clock was set: all scrapes are scheduled anew")
                self._reschedule()
            # Set back and forth between two looks, a clock has not stepped; but the scheduler may
            # have looked in between, and would sleep for as long as it was set back.
            self._scheduler.wakeup()

    def _look(self) -> None:
        if self._discovery is None:
            return
        found = self._discovery.targets(self._clock())
        self.problems = found.problems
        if found.targets is not self._followed:
            self._followed = found.targets
            self.sync(found.targets)

    def _reschedule(self) -> None:
        for labels, loop in self._loops.items():
            trigger = EveryInterval(loop.target.interval, loop.target.offset)
            self._scheduler.reschedule_job(repr(labels), trigger=trigger)

    def _spawn(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            self._on_failure(failure)


def _key(labels: Labels) -> tuple[str, Labels]:
    return "scrape", labels
