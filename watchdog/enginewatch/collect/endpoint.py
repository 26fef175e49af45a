"""One look at a running endpoint, for preflight: a one-token request, then its metrics page.

The page is judged as the daemon judges it: by the same coverage of the same rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import httpx

from enginewatch.alerting.judge import Judge, Settings
from enginewatch.alerting.rules import RuleFile
from enginewatch.collect.discovery import Discovery
from enginewatch.collect.http import TlsSettings
from enginewatch.collect.ingest import Ingest
from enginewatch.collect.probe_http import ProbeClient
from enginewatch.collect.scrape import Scraper, wall_clock
from enginewatch.collect.target import ScrapeTarget
from enginewatch.config import Config, ConfigError, ProbeConfig
from enginewatch.exposition import PageReader
from enginewatch.model import Millis
from enginewatch.preflight.readers.endpoint import Endpoint
from enginewatch.recording import ScrapeEvent

DEADLINE: Final[Millis] = 30_000
"""Of the request: the first that an engine gets may compile kernels."""


async def look(
    config: Config,
    url: str,
    rules: Sequence[RuleFile],
    *,
    deadline: Millis = DEADLINE,
    transport: httpx.AsyncBaseTransport | None = None,
    clock: Callable[[], Millis] = wall_clock,
) -> Endpoint:
    """What the only target of `config`, which is `url`, shows. Never raises for what it does.

    The request comes first: some series are there only once something was asked.
    Raises ConfigError where `config` has no target.
    """
    targets = Discovery(config).targets(clock()).targets
    if not targets:
        raise ConfigError("names no endpoint", where=url)
    target = targets[0]
    probe = ProbeClient(target, ProbeConfig(timeout=deadline, enabled=True), transport=transport)
    ended = await probe.probe()
    scraper = Scraper(target, TlsSettings(target.job.tls_config), transport=transport, clock=clock)
    try:
        page = await scraper.scrape()
    finally:
        await scraper.close()
    found = _Page(target, rules)
    found.take(page)
    return Endpoint(
        url=url if "://" in url else f"http://{url}",
        result=str(ended.result),
        seconds=ended.duration,
        problem=probe.problem,
        health=ended.health,
        model=probe.model or "",
        runtime=found.runtime,
        unscraped=found.error,
        samples=found.samples,
        blind=found.judge.blind(),
    )


class _Page:
    """A store with one scrape in it, and what the rules miss there."""

    def __init__(self, target: ScrapeTarget, rules: Sequence[RuleFile]):
        self._target: Final = target
        self.judge: Final = Judge(rules, lambda: (target.target,), Settings())
        self.error = ""
        self.samples = 0

    def take(self, page: ScrapeEvent) -> None:
        labels, head = self._target.target.labels, self.judge.head
        ingest = Ingest(
            labels,
            head.source(("target", labels)),
            PageReader(),
            wanted=self.judge.retention.wants,
            describe=head.update_metadata,
        )
        outcome = ingest.take(page)
        self.error, self.samples = outcome.error, outcome.samples
        self.judge.evaluate(page.at)

    @property
    def runtime(self) -> str:
        """The engine that the page was recognised as, or `""`."""
        return self.judge.runtime_of(self._target.target)
