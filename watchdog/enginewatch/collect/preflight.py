"""Preflight while it serves: the same files, judged by the same rules, as samples.

`enginewatch_preflight_finding` is 1 for each finding, by `code`, `check`, `hazard` (its
verdict), `severity`, `confidence` and `unknown`; `enginewatch_preflight_failed` tells
whether nothing could be judged.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

import numpy as np

from enginewatch.collect.base import Write
from enginewatch.config import PreflightConfig
from enginewatch.errors import EnginewatchError
from enginewatch.evidence.ring import EvidenceRing
from enginewatch.model import METRIC_NAME, Labels, Matcher, MatchOp, Millis, Sample
from enginewatch.preflight.capability import parse_capability
from enginewatch.preflight.facts import Facts
from enginewatch.preflight.finding import Finding
from enginewatch.preflight.inputs import Inputs, gather
from enginewatch.preflight.judge import shipped_preflight
from enginewatch.preflight.readers.gpus import Gpus
from enginewatch.preflight.run import preflight
from enginewatch.promql.check import LOOKBACK
from enginewatch.revive import keep_running
from enginewatch.store.base import Storage

JOB: Final = "preflight"
TICK: Final[Millis] = 30_000
"""How often what is known is written, so that it does not go stale between two judgements; more
often where a section asks for it."""
_SHORTEST: Final[Millis] = 1_000

_log = logging.getLogger(__name__)


class PreflightCollector:
    """Judges each section at its interval, one after another in a thread of their own, and
    writes what was found."""

    def __init__(
        self,
        sections: Sequence[PreflightConfig],
        storage: Storage,
        write: Write,
        clock: Callable[[], Millis],
        *,
        deployment: str = JOB,
        ring: EvidenceRing | None = None,
    ):
        self._watches: Final = [_Watch(each, deployment) for each in sections]
        self._storage: Final = storage
        self._write: Final = write
        self._clock: Final = clock
        self._ring: Final = ring or EvidenceRing()
        self._task: asyncio.Task[None] | None = None
        wanted = min((TICK, *(each.interval for each in sections)))
        self.tick: Final[Millis] = max(wanted, _SHORTEST)
        """Between two looks; a section is not judged later than its interval says."""

    def start(self) -> None:
        self._task = keep_running("preflight", self._run)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for watch in self._watches:
            self._write((JOB, watch.own), self._clock(), ())

    async def _run(self) -> None:
        while True:
            for watch in self._watches:
                await self.look(watch)
            await asyncio.sleep(self.tick / 1000)

    async def look(self, watch: _Watch) -> None:
        """Judge if it is time, and write what is known."""
        now = self._clock()
        gpus = () if watch.config.gpus else tuple(known_gpus(self._storage, now))
        if watch.is_due(gpus, now):
            await asyncio.to_thread(watch.judge, gpus, now)
        for finding in watch.findings:
            for evidence in finding.evidence:
                self._ring.add(finding.verdict, watch.own, evidence, now)
        self._write((JOB, watch.own), self._clock(), watch.samples())


class _Watch:
    """One section and what was last found in it."""

    def __init__(self, config: PreflightConfig, deployment: str):
        self.config: Final = config
        self.own: Final = Labels(
            job=JOB, instance=config.instance, deployment=config.deployment or deployment
        )
        self.findings: tuple[Finding, ...] = ()
        self.failure = ""
        self._judged: Millis | None = None
        self._gpus: tuple[Gpus, ...] = ()

    def is_due(self, gpus: tuple[Gpus, ...], now: Millis) -> bool:
        """At each interval, and when the GPUs are others than before: at the start there are none
        until the driver was asked."""
        if self._judged is None or gpus != self._gpus:
            return True
        # Also when the clock was set back: the next look must not be hours away.
        return not 0 <= now - self._judged < self.config.interval

    def judge(self, gpus: tuple[Gpus, ...], now: Millis) -> None:
        self._judged, self._gpus = now, gpus
        today = datetime.fromtimestamp(now / 1000, UTC).date()
        failure = ""
        try:
            facts = gather(Inputs(self.config.options()), [Facts(gpus=gpus)])
            self.findings = preflight(facts, shipped_preflight(), today).findings
        except EnginewatchError as problem:
            failure = str(problem)
        except Exception as problem:  # noqa: BLE001 - a file that breaks a reader hurts only itself
            failure = f"{type(problem).__name__}: {problem}"
        if failure and failure != self.failure:
            _log.error("preflight of %s: %s", self.own["deployment"], failure)
        self.failure = failure

    def samples(self) -> Iterator[Sample]:
        """The findings, or nothing but that there are none to be had."""
        failed = self.own.with_(**{METRIC_NAME: "enginewatch_preflight_failed"})
        yield Sample(failed, float(bool(self.failure)))
        if self.failure:
            return
        found = Counter(map(self._labels, self.findings))
        for labels, count in found.items():
            yield Sample(labels, float(count))

    def _labels(self, finding: Finding) -> Labels:
        return self.own.with_(
            code=finding.code,
            check=finding.check,
            hazard=finding.verdict,
            severity=str(finding.severity),
            confidence=str(finding.confidence),
            unknown="yes" if finding.unknown else "no",
            **{METRIC_NAME: "enginewatch_preflight_finding"},
        )


def known_gpus(storage: Storage, now: Millis) -> Iterator[Gpus]:
    """The GPUs that the NVML collector has seen, by model."""
    memory = {
        labels.get("uuid"): int(value)
        for labels, value in _rows(storage, "enginewatch_nvml_memory_total_bytes", now)
    }
    kinds: Counter[tuple[str, str, int | None, str]] = Counter()
    for labels, _ in _rows(storage, "enginewatch_nvml_info", now):
        name, capability = labels.get("name", ""), labels.get("compute_capability", "")
        driver = labels.get("driver_version", "")
        kinds[name, capability, memory.get(labels.get("uuid")), driver] += 1
    for (name, capability, size, driver), count in kinds.items():
        told = parse_capability(capability)
        yield Gpus(name, count, "NVML", capability=told, memory=size, driver=driver)


def _rows(storage: Storage, name: str, now: Millis) -> Iterator[tuple[Labels, float]]:
    found = storage.instant((Matcher(METRIC_NAME, MatchOp.EQUAL, name),), now, LOOKBACK)
    for row in np.flatnonzero(found.present).tolist():
        yield found.layout.labels[row], float(found.values[row])
