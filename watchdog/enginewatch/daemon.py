"""The daemon: wiring of collectors, judge, receivers and API, and nothing else.

Scrapes, deliveries and the API share one event loop; rules are evaluated in a
thread of their own, so that none of those waits for them.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

from rich.console import Console

from enginewatch.alerting.events import AlertChange, ChangeKind, GroupStatus
from enginewatch.alerting.judge import Judge, Round
from enginewatch.alerting.snapshot import Snapshot
from enginewatch.collect.discovery import Discovery
from enginewatch.collect.loop import Observer, TargetState
from enginewatch.collect.plugins import Collectors, Surroundings
from enginewatch.collect.pool import ScrapePool
from enginewatch.collect.scrape import steady_clock, wall_clock
from enginewatch.config import Config
from enginewatch.desk import NotifierDesk
from enginewatch.keeper import Keeper
from enginewatch.model import Alert, Millis, Target
from enginewatch.notify.heartbeat import Heartbeat
from enginewatch.notify.ledger import Changes
from enginewatch.notify.notifier import Notifier
from enginewatch.store.head import HeadStats
from enginewatch.telemetry import Telemetry
from enginewatch.units import format_duration, format_time
from enginewatch.web.app import Api, Server
from enginewatch.web.state_api import NEVER
from enginewatch.wiring import doubts, notifications, read_rules, settings, unchangeable

T = TypeVar("T")

log = logging.getLogger(__name__)

STATE_FILE: Final = "state.db"
STALLED_TICKS: Final = 6
"""Evaluations that may be late before the daemon calls itself unhealthy."""
STALLED_AFTER: Final[Millis] = 30_000
"""The least that counts as that: some groups of rules are due every second."""
DRAIN_SECONDS: Final = 10.0
"""How long a stop waits for notifications that are under way."""


class Daemon:
    """One configuration at a time, watched until stopped.

    `load` reads the configuration, at the start and at each reload. `observers`
    see every scrape. `clock` may be set while it runs, `steady` never is. Raises
    EnginewatchError from `run` when it can't start.
    """

    def __init__(
        self,
        load: Callable[[], Config],
        console: Console,
        *,
        observers: Sequence[Observer] = (),
        clock: Callable[[], Millis] = wall_clock,
        steady: Callable[[], Millis] = steady_clock,
    ):
        self._load: Final = load
        self._console: Final = console
        self._clock: Final = clock
        self._steady: Final = steady
        self._config: Config = load()
        files = read_rules(self._config)
        self._judge: Final = Judge(files, self._targets, settings(self._config))
        self._pool: Final = ScrapePool(
            self._judge.head,
            wanted=lambda name: self._judge.retention.wants(name),
            observers=observers,
            clock=clock,
        )
        around = Surroundings(
            self._judge.head,
            self._targets,
            clock,
            rules=lambda: self._judge.files,
            hurry=self._pool.hurry,
        )
        self._evidence: Final = around.ring
        self._collectors: Final = Collectors(around)
        self._keeper: Final = Keeper(
            self._config.storage.path / STATE_FILE, clock, self._everything
        )
        self._notifier: Final = Notifier(
            notifications(self._config, console),
            self._keeper,
            clock,
            self.alerts,
            steady=steady,
        )
        self._port = 0
        self._heartbeat: Heartbeat | None = None
        self._beating: asyncio.Task[None] | None = None
        self._thread: Final = ThreadPoolExecutor(1, thread_name_prefix="rules")
        self._stop: Final = asyncio.Event()
        self._reload_lock: Final = asyncio.Lock()
        self._background: Final[set[asyncio.Task[None]]] = set()
        self._telemetry: Final = Telemetry(self, lambda: self._config.web.listen)
        self._started_at = clock()
        self._judged_at = steady()

    # What telemetry and the API read.

    def targets(self) -> list[TargetState]:
        return self._pool.states()

    def groups(self) -> Sequence[GroupStatus]:
        return self._judge.manager.status()

    def alerts(self) -> Sequence[Alert]:
        return self._judge.manager.alerts()

    def store(self) -> HeadStats:
        return self._judge.head.stats()

    def notifier(self) -> Notifier:
        return self._notifier

    def keeper(self) -> Keeper:
        return self._keeper

    def heartbeat(self) -> Heartbeat | None:
        return self._heartbeat

    def _targets(self) -> list[Target]:
        return [state.target.target for state in self._pool.states()]

    # Life.

    async def run(self, announce: Callable[[str], None] = lambda _: None) -> None:
        """Watch until SIGTERM or SIGINT; `announce` is told the API's URL once it listens."""
        self._handle_signals()
        api = Api(
            judge=self._judge,
            registry=self._telemetry.registry,
            targets=lambda: map(target_json, self.targets()),
            clock=self._clock,
            ailment=self.ailment,
            starting=self.starting,
            reload=self.reload,
            token=lambda: self._config.web.read_token(),
            desk=NotifierDesk(
                self._notifier, self.alerts, lambda: [r.name for r in self._config.receivers]
            ),
        )
        server = Server(api.app(), *self._config.web.address)
        await server.start()
        try:
            self._found_at(server.port)
            await self._restore()
            self._telemetry.reloaded_at = self._started_at
            self._pool.start()
            self._pool.follow(Discovery(self._config))
            await self._collectors.follow(self._config)
            self._notifier.run()
            self._beat(self._config)
            announce(server.url)
            self._doubt()
            evaluating = asyncio.create_task(self._evaluate_forever(), name="evaluate")
            stopping = asyncio.create_task(self._stop.wait(), name="wait for a signal")
            await asyncio.wait({evaluating, stopping}, return_when=asyncio.FIRST_COMPLETED)
            for task in (evaluating, stopping):
                task.cancel()
            if evaluating.done() and not evaluating.cancelled():
                evaluating.result()
        finally:
            await self._shut_down(server)

    def stop(self) -> None:
        self._stop.set()

    def _found_at(self, port: int) -> None:
        """Links lead to the port that the system chose, where that was left to it."""
        if self._config.web.address[1] == port:
            return
        self._port, now = port, self._clock()
        self._judge.reload(self._judge.files, settings(self._config, port), now)
        self._notifier.reconfigure(notifications(self._config, self._console, port), now)

    async def _shut_down(self, server: Server) -> None:
        await self._pool.stop()
        await self._collectors.stop()
        self._put_alerts()
        left = await self._notifier.drain(DRAIN_SECONDS)
        if left:
            log.error("stopped with something still to tell in %d groups", left)
        await self._keeper.close()
        if self._beating is not None:
            self._background.add(self._beating)
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await server.stop()
        self._thread.shutdown()

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        loop.add_signal_handler(signal.SIGHUP, lambda: self._spawn(self._reload_by_signal()))

    # Evaluation.

    async def _evaluate_forever(self) -> None:
        while True:
            tick = self._judge.tick
            began = self._clock()
            due = (began // tick + 1) * tick
            await asyncio.sleep((due - began) / 1000)
            # A clock that was set while this slept is believed, as everywhere.
            now = self._clock()
            at = due if abs(now - due) < tick else now
            await self._tell((await self._in_thread(partial(self._evaluate, at))).changes)
            self._notifier.tick(self._clock())

    def _evaluate(self, at: Millis) -> Round:
        """One evaluation, in the rules' thread."""
        # Some groups are evaluated oftener than anyone asks for these.
        if self._judge.is_due("telemetry", at):
            self._judge.write("enginewatch", at, self._telemetry.samples())
        round_ = self._judge.evaluate(at)
        self._telemetry.evaluated_at = at
        self._judged_at = self._steady()
        for result in round_.results:
            self._telemetry.rule_failures[result.group.name] += len(result.failures)
            for failure in result.failures:
                log.warning(
                    "%s:%d: rule %s: %s",
                    failure.rule.file,
                    failure.rule.line,
                    failure.rule.name,
                    failure.message,
                )
        return round_

    async def _tell(self, changes: Sequence[AlertChange]) -> None:
        """Alerts and what is to be told of them are saved in one transaction, or neither is."""
        if not changes:
            return
        told = []
        for change in changes:
            if change.begins_incident or change.ends_incident:
                told.append(self._evidence.attached(to_tell(change), self._clock()))
            elif change.kind is ChangeKind.PENDING:
                log.info("pending: %s %s", change.alert.name, change.alert.labels.get("instance"))
        self._notifier.take(told, self._clock())
        self._put_alerts()
        await self._keeper.commit()

    def _put_alerts(self) -> None:
        self._keeper.put(Changes(), alerts=self._judge.manager.snapshot(self._clock()))

    def _everything(self) -> tuple[Snapshot, Changes]:
        """All there is to save, for when nothing is saved yet."""
        return self._judge.manager.snapshot(self._clock()), self._notifier.pipeline.everything()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def ailment(self) -> str | None:
        """What is wrong with the daemon now, or None."""
        # By the clock that nobody sets: else an hour's step would look like an hour's standstill.
        late = self._steady() - self._judged_at
        if late > max(STALLED_TICKS * self._judge.tick, STALLED_AFTER):
            return f"the rules were last evaluated {format_duration(late // 1000 * 1000)} ago"
        return self._notifier.ailment(self._clock())

    def _speechless(self) -> str | None:
        """Why the heartbeat has to stop: nobody watches, or nobody would hear of it."""
        return self.starting() or self.ailment() or self._notifier.unheard()

    def starting(self) -> str | None:
        """What the daemon still waits for before its answers mean something, or None."""
        if not self._telemetry.evaluated_at:
            return "the rules have not been evaluated yet"
        return None

    # State across restarts.

    async def _restore(self) -> None:
        loaded = await self._keeper.load()
        now = self._clock()
        changes: Sequence[AlertChange] = ()
        if loaded.alerts is not None:
            changes = self._judge.restore(loaded.alerts, now)
        self._notifier.restore(loaded.saved, loaded.entries, now)
        await self._tell(changes)

    def _beat(self, config: Config) -> None:
        """The heartbeat of a configuration in place of the one before."""
        if self._beating is not None:
            self._beating.cancel()
        self._heartbeat = self._beating = None
        if config.heartbeat is not None:
            self._heartbeat = Heartbeat(config.heartbeat, self._speechless, self._clock)
            self._beating = asyncio.create_task(self._heartbeat.run(), name="heartbeat")

    # Reload.

    async def _reload_by_signal(self) -> None:
        try:
            await self.reload()
        except Exception as failure:  # noqa: BLE001 - a signal has nobody to raise to
            log.error("not reloaded, the running configuration stays in force: %s", failure)

    async def reload(self) -> None:
        """Read everything again. Raises EnginewatchError, and then nothing has changed."""
        async with self._reload_lock:
            try:
                config = self._load()
                unchangeable(self._config, config)
                files = await asyncio.to_thread(read_rules, config)
                setup = notifications(config, self._console, self._port)
            except Exception:
                self._telemetry.reload_succeeded = False
                raise
            changes = await self._in_thread(
                lambda: self._judge.reload(files, settings(config, self._port), self._clock())
            )
            self._config = config
            self._pool.follow(Discovery(config))
            await self._collectors.follow(config)
            await self._tell(changes)
            self._notifier.reconfigure(setup, self._clock())
            self._beat(config)
            self._telemetry.reload_succeeded = True
            self._telemetry.reloaded_at = self._clock()
            log.info("reloaded")
            self._doubt()

    def _doubt(self) -> None:
        targets = [target.labels for target in self._targets()]
        for sentence in doubts(self._config, self._judge.files, targets, self._port):
            log.warning("%s", sentence)

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


def to_tell(change: AlertChange) -> Alert:
    """The alert of a change as receivers hear of it: to them a demoted one has resolved."""
    if change.ends_incident and change.alert.resolved_at is None:
        return replace(change.alert, fired_at=change.at, resolved_at=change.at)
    return change.alert


def target_json(state: TargetState) -> dict[str, Any]:
    """A target as `/api/v1/targets` shows it."""
    target = state.target
    return {
        "discoveredLabels": dict(target.discovered),
        "labels": dict(target.target.labels),
        "scrapePool": target.job.job_name,
        "scrapeUrl": target.target.url,
        "globalUrl": target.target.url,
        "lastError": state.last_error,
        "lastScrape": NEVER if state.last_scrape is None else format_time(state.last_scrape),
        "lastScrapeDuration": state.last_duration,
        "health": state.health.value,
        "scrapeInterval": format_duration(target.interval),
        "scrapeTimeout": format_duration(target.timeout),
    }
