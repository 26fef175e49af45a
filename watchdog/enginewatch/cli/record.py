"""`enginewatch record`: pages as they come, with their times, into a file."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Annotated, Final

import typer

from enginewatch.alerting.judge import Retention
from enginewatch.alerting.rules import load_rule_files
from enginewatch.cli.options import parse_span
from enginewatch.cli.stopping import stop_on_signal, until
from enginewatch.collect.discovery import Discovery
from enginewatch.collect.pool import ScrapePool
from enginewatch.collect.probe import Prober
from enginewatch.collect.probe_progress import Progress
from enginewatch.collect.scrape import wall_clock
from enginewatch.collect.target import ScrapeTarget
from enginewatch.config import Config, config_for_urls
from enginewatch.model import Millis, Sample
from enginewatch.recording import RecordingError, RecordingWriter, SamplesEvent, ScrapeEvent
from enginewatch.rulepack import rule_files
from enginewatch.store.head import Head
from enginewatch.units import format_float, plural


def record(
    urls: Annotated[list[str], typer.Argument(help="Engines, such as http://gpu-1:8000.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The file; .gz or .xz compresses it.")
    ],
    interval: Annotated[str, typer.Option(help="How often each engine is scraped.")] = "5s",
    duration: Annotated[
        str | None, typer.Option(help="Stop after this time; without it, at Ctrl-C.")
    ] = None,
    runtime: Annotated[str | None, typer.Option(help="vllm, trtllm, triton, nim, …")] = None,
    probe: Annotated[
        bool,
        typer.Option("--probe", help="Ask for one token every 5 s, and record the answers too."),
    ] = False,
) -> None:
    """Record what engines export, for `enginewatch replay` and for tests of rules."""
    every = parse_span(interval, "--interval")
    limit = None if duration is None else parse_span(duration, "--duration")
    config = config_for_urls(urls, runtime)
    paced = config.global_.model_copy(update={"scrape_interval": every})
    config = config.model_copy(update={"global_": paced})
    with RecordingWriter(output) as writer:
        count = asyncio.run(_Recorder(config, writer, probe=probe).run(limit))
    typer.echo(f"{output}: {plural(count, 'scrape')}")


class _Recorder:
    """Writes down what scrapes and probes bring, until told to stop or until it can't."""

    def __init__(self, config: Config, writer: RecordingWriter, *, probe: bool):
        self._config: Final = config
        self._writer: Final = writer
        self._stop: asyncio.Event | None = None
        self._failures: Final[list[BaseException]] = []
        self._scrapes = 0
        # How long nothing has moved is told with a probe, so what shows it must be kept.
        rules = load_rule_files(rule_files()) if probe else ()
        retention = Retention(rules)
        head = Head(keep=retention if probe else lambda _: None)
        self._pool: Final = ScrapePool(
            head,
            wanted=retention.wants if probe else lambda _: False,
            observers=[self._scraped],
            on_failure=self._give_up,
        )
        self._prober: Final = (
            Prober(
                config,
                Progress(lambda: rules, head),
                self._probed,
                clock=wall_clock,
                hurry=self._pool.hurry,
            )
            if probe
            else None
        )

    async def run(self, limit: Millis | None) -> int:
        """How many scrapes were written. Raises RecordingError."""
        self._stop = stop_on_signal()
        self._pool.start()
        self._pool.sync(Discovery(self._config).targets(wall_clock()).targets)
        if self._prober is not None:
            self._prober.start()
        try:
            await until(self._stop, None if limit is None else limit / 1000)
        finally:
            if self._prober is not None:
                await self._prober.stop()
            await self._pool.stop()
        if self._failures:
            raise self._failures[0]
        return self._scrapes

    def _scraped(self, _: ScrapeTarget, event: ScrapeEvent) -> None:
        self._writer.scrape(event)
        self._scrapes += 1

    def _probed(self, key: Hashable, now: Millis, samples: Iterable[Sample]) -> None:
        assert isinstance(key, tuple)
        source, target = key
        page = "".join(
            f"{each.labels.without(*target)!r} {format_float(each.value)}\n" for each in samples
        )
        if page and not self._failures:
            try:
                self._writer.samples(SamplesEvent(target, now, source, page.encode()))
            except RecordingError as failure:
                self._give_up(failure)

    def _give_up(self, failure: BaseException) -> None:
        self._failures.append(failure)
        if self._stop is not None:
            self._stop.set()
