"""What NCCL knows of its own jobs: `enginewatch_nccl_ras_*`, by its RAS socket.

It sees ranks on other machines, where no enginewatch runs, and counts of operations that
no process shows. Where nobody named an address, the usual one is tried without a word:
most machines have no job there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from enginewatch.collect.base import Write
from enginewatch.collect.deadline import LagClock
from enginewatch.collect.ras_client import Answer, ask
from enginewatch.collect.ras_json import parse_json
from enginewatch.collect.ras_report import RasError, Reason, Report
from enginewatch.collect.ras_text import parse_text
from enginewatch.collect.ras_track import JOB, PREFIX, Tracks, follow, lines, samples
from enginewatch.config import NcclRasConfig
from enginewatch.evidence.ring import EvidenceRing
from enginewatch.evidence.verdict import Evidence
from enginewatch.model import METRIC_NAME, Labels, Millis, Sample
from enginewatch.revive import keep_running
from enginewatch.units import parse_address

_log = logging.getLogger(__name__)

VERDICT: Final = "collective_hang"
_AWAY: Final = 600.0
"""Seconds until an address that nobody named is tried again, where something else listens."""
_REPEATED: Final[Millis] = 300_000
"""How often lines that stay the same are told again, so that they do not grow old."""


class RasCollector:
    """Asks each job at its interval, each in a task of its own, and writes what was told."""

    def __init__(
        self,
        sections: Sequence[NcclRasConfig],
        write: Write,
        clock: Callable[[], Millis],
        *,
        deployment: str | None = None,
        ring: EvidenceRing | None = None,
    ):
        self._lag: Final = LagClock()
        self._clock: Final = clock
        self._write: Final = write
        evidence = ring or EvidenceRing()
        self.jobs: Final = tuple(
            Job(each, deployment, write, clock, ring=evidence, lag=self._lag) for each in sections
        )
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        work = (self._lag.run, *(job.run for job in self.jobs))
        self._tasks = [keep_running(JOB, each) for each in work]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for job in self.jobs:
            self._write(job.key, self._clock(), ())


class Job:
    """One address, and what was told of the job there so far."""

    def __init__(
        self,
        config: NcclRasConfig,
        deployment: str | None,
        write: Write,
        clock: Callable[[], Millis],
        *,
        ring: EvidenceRing,
        lag: Callable[[], float],
    ):
        deployment = config.deployment or deployment
        self._config: Final = config
        self._write: Final = write
        self._clock: Final = clock
        self._ring: Final = ring
        self._lag: Final = lag
        self.key: Final = (JOB, config.address)
        self._own: Final = Labels(
            job=JOB,
            instance=config.instance,
            deployment=deployment or JOB,
            address=config.address,
        )
        # No instance: what is said of a job is said of every rank of it, wherever that is.
        self._about: Final = Labels(deployment=deployment) if deployment else Labels()
        self._expected = config.is_named
        """Whether it means something that nobody answers."""
        self._problem = ""
        self._as_json = True
        self._tracks: Tracks = {}
        self._told: tuple[tuple[str, ...], Millis] = ((), 0)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            wait = await self.look()
            due = max(due + wait, loop.time())
            await asyncio.sleep(due - loop.time())

    async def look(self) -> float:
        """Ask once, and write what was told; in how many seconds the next is due."""
        try:
            answer, report = await self._account()
        except RasError as failure:
            return self._failed(failure)
        if self._problem:
            _log.info("nccl_ras: %s: it answers", self._config.address)
        self._problem, self._expected = "", True
        self._take(answer, report)
        return self._config.interval / 1000

    async def _account(self) -> tuple[Answer, Report]:
        """JSON where the job's NCCL writes it well, text from the first time that it does not."""
        answer = await self._ask()
        if answer.is_json:
            try:
                return answer, await asyncio.to_thread(parse_json, answer.text)
            except RasError as failure:
                _log.info("nccl_ras: %s: %s; asked for text now", self._config.address, failure)
                self._as_json = False
                answer = await self._ask()
        return answer, await asyncio.to_thread(parse_text, answer.text)

    async def _ask(self) -> Answer:
        host, port = parse_address(self._config.address)
        seconds = self._config.timeout / 1000
        return await ask(host, port, seconds, self._lag, as_json=self._as_json)

    def _take(self, answer: Answer, report: Report) -> None:
        now = self._clock()
        self._tracks = follow(self._tracks, report, now)
        status = [
            self._sample("up", 1.0),
            self._sample("connections_unanswered", answer.unanswered),
        ]
        self._write(self.key, now, [*status, *samples(report, self._tracks, now, self._own)])
        self._tell([*_unanswered(answer), *lines(report, self._tracks, now)], now)

    def _failed(self, failure: RasError) -> float:
        if not self._expected:
            if failure.reason is not Reason.REFUSED and failure.reason != self._problem:
                _log.info("nccl_ras: no job at the usual address: %s", failure)
            self._problem = failure.reason
            away = failure.reason is Reason.NOT_NCCL
            return _AWAY if away else self._config.interval / 1000
        if failure.reason != self._problem:
            _log.warning("nccl_ras: %s", failure)
        self._problem = failure.reason
        # What is remembered stays: the next account may go on where the last one was.
        error = self._sample("error", 1.0, reason=failure.reason)
        self._write(self.key, self._clock(), [self._sample("up", 0.0), error])
        return self._config.interval / 1000

    def _tell(self, found: Sequence[str], now: Millis) -> None:
        """Keep these lines as evidence, unless they are those that were kept lately."""
        told, at = self._told
        if tuple(found) == told and 0 <= now - at < _REPEATED:
            return
        self._told = (tuple(found), now)
        source = f"NCCL RAS {self._config.address}"
        for line in found:
            self._ring.add(VERDICT, self._about, Evidence(source, 0, line), now)

    def _sample(self, name: str, value: float, **labels: str) -> Sample:
        return Sample(self._own.with_(**{METRIC_NAME: PREFIX + name}, **labels), value)


def _unanswered(answer: Answer) -> Iterator[str]:
    if answer.unanswered:
        yield (
            f"{answer.unanswered} connections were accepted and not answered: a process of the job "
            "is stopped"
        )
