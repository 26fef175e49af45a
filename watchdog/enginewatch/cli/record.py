"""`enginewatch record`: pages as they come, with their times, into a file."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from enginewatch.cli.options import parse_span
from enginewatch.cli.output import plural
from enginewatch.cli.stopping import stop_on_signal, until
from enginewatch.collect.discovery import Discovery
from enginewatch.collect.pool import ScrapePool
from enginewatch.collect.scrape import wall_clock
from enginewatch.collect.target import ScrapeTarget
from enginewatch.config import Config, config_for_urls
from enginewatch.model import Millis
from enginewatch.recording import RecordingWriter, ScrapeEvent
from enginewatch.store.head import Head


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
) -> None:
    """Record what engines export, for `enginewatch replay` and for tests of rules."""
    every = parse_span(interval, "--interval")
    limit = None if duration is None else parse_span(duration, "--duration")
    config = config_for_urls(urls, runtime)
    paced = config.global_.model_copy(update={"scrape_interval": every})
    config = config.model_copy(update={"global_": paced})
    with RecordingWriter(output) as writer:
        count = asyncio.run(_record(config, writer, limit))
    typer.echo(f"{output}: {plural(count, 'scrape')}")


async def _record(config: Config, writer: RecordingWriter, limit: Millis | None) -> int:
    count = 0
    stop = stop_on_signal()
    failures: list[BaseException] = []

    def observe(_: ScrapeTarget, event: ScrapeEvent) -> None:
        nonlocal count
        writer.scrape(event)
        count += 1

    def give_up(failure: BaseException) -> None:
        failures.append(failure)
        stop.set()

    pool = ScrapePool(
        Head(keep=lambda _: None),
        wanted=lambda _: False,
        observers=[observe],
        on_failure=give_up,
    )
    pool.start()
    pool.sync(Discovery(config).targets(wall_clock()).targets)
    try:
        await until(stop, None if limit is None else limit / 1000)
    finally:
        await pool.stop()
    if failures:
        raise failures[0]
    return count
