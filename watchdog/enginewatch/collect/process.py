"""Processes of engines on this machine: `enginewatch_process_*`, once a second.

One stopped rank is the earliest sign of a hang that there is, and nothing else shows
it while the engine is idle.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from enginewatch.collect.deadline import LagClock, within
from enginewatch.collect.process_identity import (
    configured_patterns,
    known_patterns,
    local_targets,
    own_hosts,
)
from enginewatch.collect.process_look import Looker
from enginewatch.collect.process_track import JOB, Defaults, Seen, Tracks, follow, samples
from enginewatch.collect.rounds import Rounds
from enginewatch.config import ProcessesConfig
from enginewatch.model import METRIC_NAME, Labels, Millis, Sample, Target
from enginewatch.revive import keep_running
from enginewatch.rulepack import rules_path
from enginewatch.store.head import Head

_log = logging.getLogger(__name__)

_MOST_ABANDONED: Final = 3
"""Looks that hang; with as many no other is begun until one has ended."""


class ProcessCollector:
    """Looks at the process table in threads, each with a deadline, and writes what it saw.

    A look that is overdue is abandoned and `enginewatch_processes_hung` is 1 until one is
    in time again; processes that one got stuck with are counted as avoided. Raises
    SignatureError where the table of known processes can't be read.
    """

    def __init__(
        self,
        config: ProcessesConfig,
        head: Head,
        targets: Callable[[], Sequence[Target]],
        clock: Callable[[], Millis],
        *,
        deployment: str = JOB,
        rules: Path | None = None,
    ):
        patterns = configured_patterns(config.engines) + known_patterns(rules or rules_path())
        self._config: Final = config
        self._targets: Final = targets
        self._clock: Final = clock
        self._defaults: Final = Defaults(config.instance, config.deployment or deployment)
        self._rounds: Final = Rounds(head, JOB)
        self._lag: Final = LagClock()
        self._looker = Looker(patterns)
        self._tracks = Tracks()
        self._scan_due: Millis = 0
        self._abandoned: list[threading.Thread] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.hung = False

    def start(self) -> None:
        self._tasks = [keep_running("processes", work) for work in (self._lag.run, self._run)]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._rounds.end(self._clock())

    async def _run(self) -> None:
        hosts = await asyncio.to_thread(own_hosts)
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            await self._look(hosts)
            due = max(due + self._config.interval / 1000, loop.time())
            await asyncio.sleep(due - loop.time())

    async def _look(self, hosts: frozenset[str]) -> None:
        now = self._clock()
        seen: Sequence[Seen] = ()
        self._abandoned = [thread for thread in self._abandoned if thread.is_alive()]
        if len(self._abandoned) < _MOST_ABANDONED:
            try:
                # A clock that was set back does not put off the next scan.
                if now >= self._scan_due or self._scan_due - now > self._config.scan_interval:
                    self._scan_due = now + self._config.scan_interval
                    targets = local_targets(self._targets(), hosts)
                    seen = await self._in_time(lambda looker: looker.scan(targets))
                else:
                    seen = await self._in_time(Looker.refresh)
            except TimeoutError:
                if not self.hung:
                    _log.error("the process table hangs: no look for %d ms", self._config.timeout)
                self.hung = True
            except OSError as failure:
                if not self.hung:
                    _log.error("the process table can't be read: %s", failure)
                self.hung = True
            else:
                self.hung = False
        self._write(self._clock(), seen)

    async def _in_time(self, look: Callable[[Looker], list[Seen]]) -> list[Seen]:
        """The result of a look made in a thread. Raises TimeoutError, and what the look raises."""
        loop = asyncio.get_running_loop()
        looker, result = self._looker, loop.create_future()

        def work() -> None:
            try:
                seen, failure = look(looker), None
            except Exception as problem:  # noqa: BLE001 - raised where it is waited for
                seen, failure = [], problem
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(_settle, result, seen, failure)

        thread = threading.Thread(target=work, name="process table", daemon=True)
        thread.start()

        async def wait() -> list[Seen]:
            found: list[Seen] = await result
            return found

        try:
            return await within(self._config.timeout / 1000, wait(), self._lag)
        except TimeoutError:
            self._abandoned.append(thread)
            self._looker = looker.successor()
            raise

    def _write(self, now: Millis, seen: Sequence[Seen]) -> None:
        status = {"hung": float(self.hung), "avoided": float(self._looker.avoided)}
        if not self.hung:
            status["watched"] = len(seen)
            self._tracks = follow(self._tracks, seen, now, self._defaults)
        own = Labels(job=JOB, instance=self._defaults.host, deployment=self._defaults.deployment)
        self._rounds.write(
            now,
            [
                *(() if self.hung else samples(self._tracks, seen, now)),
                *(
                    Sample(own.with_(**{METRIC_NAME: f"enginewatch_processes_{name}"}), value)
                    for name, value in status.items()
                ),
            ],
        )


def _settle(
    result: asyncio.Future[list[Seen]], seen: list[Seen], failure: Exception | None
) -> None:
    if result.done():  # nobody waits any more
        return
    if failure is None:
        result.set_result(seen)
    else:
        result.set_exception(failure)
