"""Asks engines for one token each, wherever their own traffic does not prove that they live."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import httpx

from enginewatch.collect.base import Write
from enginewatch.collect.deadline import LagClock
from enginewatch.collect.discovery import Following
from enginewatch.collect.gate import Gate
from enginewatch.collect.probe_dialect import Result
from enginewatch.collect.probe_http import ProbeClient
from enginewatch.collect.probe_progress import Progress, Seen, key_of
from enginewatch.collect.probe_schedule import Ended, Standing, Step
from enginewatch.collect.target import ScrapeTarget
from enginewatch.config import Config, ProbeConfig
from enginewatch.evidence.ring import EvidenceRing
from enginewatch.evidence.verdict import Evidence
from enginewatch.model import Labels, Millis
from enginewatch.revive import keep_running

_log = logging.getLogger(__name__)

_TICK: Final = 0.5
"""Seconds between looks at what has become of the targets' traffic."""
_WAITING: Final[Millis] = 1_000
"""How often it is written down that a probe is still waited for."""
_SLACK: Final[Millis] = 500
"""By how much two scrapes may be further apart than their interval."""

_OVERDUE: Final[Millis] = 1_000
_CLOSELY: Final[Millis] = 20_000
"""For how long a target that does not answer is scraped every second."""

Transports = Callable[[ScrapeTarget], httpx.AsyncBaseTransport]


@dataclass
class _Probed:
    """A target, its client, and what is known of it."""

    target: ScrapeTarget
    settings: ProbeConfig
    client: ProbeClient
    standing: Standing = field(default_factory=Standing)
    flight: asyncio.Task[None] | None = None
    seen: Seen | None = None
    written: Millis | None = None
    told: str = ""

    def is_alive(self, now: Millis) -> bool:
        """Whether the target's own traffic proves progress: what was seen counts until the scrape
        after it. An idle engine moves too when it answers a probe, which is no traffic."""
        patience = max(self.settings.interval, self.target.interval) + _SLACK
        return self.seen is not None and self.seen.busy and now - self.seen.moved < patience

    @property
    def labels(self) -> Labels:
        """The target's own, and the model that is asked."""
        own = self.target.target.labels
        return own.with_(model=self.client.model) if self.client.model else own


class Prober:
    """Probes the targets of one configuration, each at most once at a time.

    A target whose traffic makes progress is left alone. A probe that is not answered
    in time is abandoned, its connection closed.
    """

    def __init__(
        self,
        config: Config,
        progress: Progress,
        write: Write,
        *,
        clock: Callable[[], Millis],
        ring: EvidenceRing | None = None,
        hurry: Callable[[Labels], None] = lambda _: None,
        transports: Transports | None = None,
    ):
        self._config: Final = config
        self._progress: Final = progress
        self._write: Final = write
        self._clock: Final = clock
        self._ring: Final = EvidenceRing() if ring is None else ring
        self._hurry: Final = hurry
        self._transports: Final = transports
        self._lag: Final = LagClock()
        self._gate: Final = Gate(self._lag, config.probe.concurrency)
        self._probed: Final[dict[Labels, _Probed]] = {}
        self._following: Final = Following(config, self._wants)
        self._tasks: Final[set[asyncio.Task[None]]] = set()

    def start(self) -> None:
        for work in (self._lag.run, self._forever):
            self._tasks.add(keep_running("probe", work, pause=_TICK))

    async def stop(self) -> None:
        flights = [each.flight for each in self._probed.values() if each.flight is not None]
        for task in (*self._tasks, *flights):
            task.cancel()
        await asyncio.gather(*self._tasks, *flights, return_exceptions=True)
        for labels in tuple(self._probed):
            self._drop(labels)

    async def _forever(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(_TICK)

    def look(self) -> None:
        """Send what is due now, and write down what is known."""
        now = self._clock()
        self._follow(now)
        seen = self._progress.look(now)
        for each in self._probed.values():
            each.seen = seen.get(key_of(each.target.target.labels))
            self._advance(each, now)

    def _advance(self, each: _Probed, now: Millis) -> None:
        before = each.standing
        match before.step(now, each.settings.interval, alive=each.is_alive(now)):
            case Step.SKIP:
                each.standing = before.after_skip()
            case Step.SEND:
                each.standing = before.after_send(now)
                each.flight = asyncio.ensure_future(self._fly(each))
            case Step.WAIT:
                pass
        self._watch_closely(each, now)
        waited = each.written is None or not 0 <= now - each.written < self._pause(each)
        if waited or each.standing.skipping is not before.skipping:
            self._tell(each, now)

    def _watch_closely(self, each: _Probed, now: Millis) -> None:
        """While an answer is overdue, see on the page whether anything moves, and see it soon."""
        silence = each.standing.silence(now) or 0
        if each.seen is None or not _OVERDUE <= silence < _CLOSELY:
            return
        if now - each.seen.newest >= _OVERDUE:
            self._hurry(each.target.target.labels)

    def _pause(self, each: _Probed) -> Millis:
        silent = each.standing.flying or each.standing.silent
        return min(_WAITING, each.settings.interval) if silent else each.settings.interval

    async def _fly(self, each: _Probed) -> None:
        async with self._gate.place():
            # The time in the queue is ours, not the engine's.
            each.standing = each.standing.sent_at(self._clock())
            ended = await each.client.probe()
        each.standing = each.standing.after_end(ended)
        self._witness(each, ended)
        self._report(each, ended)
        self._tell(each, self._clock())

    def _tell(self, each: _Probed, now: Millis) -> None:
        last = each.standing.last
        if last is not None and last.result is Result.UNSUPPORTED:
            self._write(_key(each.target.target.labels), now, ())
        else:
            samples = each.standing.samples(each.labels, now, each.seen and each.seen.age)
            self._write(_key(each.target.target.labels), now, samples)
        each.written = now

    def _witness(self, each: _Probed, ended: Ended) -> None:
        """Keep what speaks for a hang, to be told with it."""
        if ended.result is Result.DEADLINE:
            said = f"request {each.standing.probes} for one token: {each.client.problem}"
            health = "" if ended.health is None else f"; health page: HTTP {ended.health or 'none'}"
            evidence = Evidence("probe", 0, said + health)
            self._ring.add("stuck_engine", each.target.target.labels, evidence, self._clock())

    def _report(self, each: _Probed, ended: Ended) -> None:
        """Log what changed, once."""
        problem = "" if ended.result is Result.ANSWERED else each.client.problem
        if problem == each.told:
            return
        url, each.told = each.target.target.url, problem
        if not problem:
            _log.info("%s: probes are answered again", url)
        elif ended.result is Result.UNSUPPORTED:
            _log.info("%s is not probed: %s", url, problem)
        else:
            _log.warning("%s: probe: %s: %s", url, ended.result, problem)

    def _follow(self, now: Millis) -> None:
        """Probe what is configured now."""
        changes = self._following.look(now, self._probed)
        for labels in changes.gone:
            self._drop(labels)
        for target in changes.new:
            self._probed[target.target.labels] = self._new(target)

    def _wants(self, target: ScrapeTarget) -> bool:
        return self._config.probe_of(target.job).enabled is not False

    def _new(self, target: ScrapeTarget) -> _Probed:
        settings = self._config.probe_of(target.job)
        transport = None if self._transports is None else self._transports(target)
        client = ProbeClient(target, settings, transport=transport, lag=self._lag)
        return _Probed(target, settings, client)

    def _drop(self, labels: Labels) -> None:
        each = self._probed.pop(labels)
        if each.flight is not None:
            each.flight.cancel()
        self._write(_key(labels), self._clock(), ())


def _key(labels: Labels) -> tuple[str, Labels]:
    return "probe", labels
