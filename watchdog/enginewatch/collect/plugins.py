"""The collectors that run beside the scrape, as a configuration asks for them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from enginewatch.alerting.rules import RuleFile
from enginewatch.collect import nvml, preflight, process_track
from enginewatch.collect.base import Collector, Write
from enginewatch.collect.canary import CanaryCollector
from enginewatch.collect.logs import LogCollector
from enginewatch.collect.preflight import PreflightCollector
from enginewatch.collect.probe import Prober
from enginewatch.collect.probe_progress import Progress
from enginewatch.collect.process import ProcessCollector
from enginewatch.collect.ras import RasCollector
from enginewatch.collect.rounds import Writers
from enginewatch.config import Config, NcclRasConfig
from enginewatch.evidence.pack import shipped_pack
from enginewatch.evidence.ring import EvidenceRing
from enginewatch.model import Labels, Millis, Target
from enginewatch.store.head import Head

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a collector is given of the daemon, to ask at each use; `rules` are those in force."""

    head: Head
    targets: Callable[[], Sequence[Target]]
    clock: Callable[[], Millis]
    rules: Callable[[], Sequence[RuleFile]] = tuple
    ring: EvidenceRing = field(default_factory=EvidenceRing)
    hurry: Callable[[Labels], None] = lambda _: None
    """Scrapes the target of these labels at once."""

    def writer(self) -> Write:
        return Writers(self.head)


class Plugin(NamedTuple):
    """A kind of collector. `section` gives all of a configuration that it depends on, or None
    where it is not wanted; as long as that stays equal, a reload leaves the collector alone."""

    name: str
    """By which its work is known to `revive`, too."""
    section: Callable[[Config], object]
    make: Callable[[Config, Surroundings], Collector]


def _nvml_section(config: Config) -> object:
    return (config.nvml, config.sole_deployment) if config.nvml.enabled else None


def _nvml(config: Config, around: Surroundings) -> Collector:
    deployment = config.sole_deployment or nvml.JOB
    return nvml.NvmlCollector(config.nvml, around.head, around.clock, deployment=deployment)


def _probe_section(config: Config) -> object:
    wanted = config.probe.enabled is not False or any(job.probe for job in config.scrape_configs)
    given = (config.probe, config.scrape_configs, config.global_)
    return given if wanted else None


def _probe(config: Config, around: Surroundings) -> Collector:
    progress = Progress(around.rules, around.head)
    return Prober(
        config,
        progress,
        around.writer(),
        clock=around.clock,
        ring=around.ring,
        hurry=around.hurry,
    )


def _canary_section(config: Config) -> object:
    wanted = tuple(each for each in config.canary if each.enabled)
    return (wanted, config.scrape_configs, config.storage) if wanted else None


def _canary(config: Config, around: Surroundings) -> Collector:
    return CanaryCollector(
        config, around.head, around.writer(), clock=around.clock, ring=around.ring
    )


def _logs_section(config: Config) -> object:
    given = (config.logs, config.journal, config.kernel)
    return given if any(given) else None


def _logs(config: Config, around: Surroundings) -> Collector:
    signatures = shipped_pack().signatures
    return LogCollector(config, signatures, around.writer(), clock=around.clock, ring=around.ring)


def _processes_section(config: Config) -> object:
    return (config.processes, config.sole_deployment) if config.processes.enabled else None


def _processes(config: Config, around: Surroundings) -> Collector:
    deployment = config.sole_deployment or process_track.JOB
    return ProcessCollector(
        config.processes, around.head, around.targets, around.clock, deployment=deployment
    )


def _preflight_section(config: Config) -> object:
    return (config.preflight, config.sole_deployment) if config.preflight else None


def _preflight(config: Config, around: Surroundings) -> Collector:
    return PreflightCollector(
        config.preflight,
        around.head,
        around.writer(),
        around.clock,
        deployment=config.sole_deployment or preflight.JOB,
        ring=around.ring,
    )


def _ras_jobs(config: Config) -> tuple[NcclRasConfig, ...]:
    return tuple(each for each in config.nccl_ras if each.enabled)


def _ras_section(config: Config) -> object:
    jobs = _ras_jobs(config)
    return (jobs, config.sole_deployment) if jobs else None


def _ras(config: Config, around: Surroundings) -> Collector:
    return RasCollector(
        _ras_jobs(config),
        around.writer(),
        around.clock,
        deployment=config.sole_deployment,
        ring=around.ring,
    )


PLUGINS: Final = (
    Plugin("nvml", _nvml_section, _nvml),
    Plugin("processes", _processes_section, _processes),
    Plugin("nccl_ras", _ras_section, _ras),
    Plugin("probe", _probe_section, _probe),
    Plugin("logs", _logs_section, _logs),
    Plugin("canary", _canary_section, _canary),
    Plugin("preflight", _preflight_section, _preflight),
)


class Collectors:
    """The collectors in force. One that can't start is logged and hurts nobody else."""

    def __init__(self, surroundings: Surroundings, plugins: Iterable[Plugin] = PLUGINS):
        self._surroundings: Final = surroundings
        self._plugins: Final = tuple(plugins)
        self._running: Final[dict[str, tuple[object, Collector]]] = {}

    async def follow(self, config: Config) -> None:
        """Run what this configuration asks for, from now on."""
        for plugin in self._plugins:
            section = plugin.section(config)
            running = self._running.get(plugin.name)
            if running is not None and running[0] == section:
                continue
            if running is not None:
                await self._end(plugin.name)
            if section is not None:
                self._begin(plugin, section, config)

    async def stop(self) -> None:
        await asyncio.gather(*(self._end(name) for name in tuple(self._running)))

    def _begin(self, plugin: Plugin, section: object, config: Config) -> None:
        try:
            collector = plugin.make(config, self._surroundings)
            collector.start()
        except Exception as failure:  # noqa: BLE001 - a probe that fails hurts only itself
            _log.error("%s: not collected: %s", plugin.name, failure)
            return
        self._running[plugin.name] = (section, collector)

    async def _end(self, name: str) -> None:
        _, collector = self._running.pop(name)
        try:
            await collector.stop()
        except Exception as failure:  # noqa: BLE001 - the others are stopped all the same
            _log.error("%s: did not stop well: %s", name, failure)
