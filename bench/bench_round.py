"""How long it takes until every engine of a fleet was scraped once, by a pool that just began.

Over real HTTP, with the shipped rules deciding what is kept. Every engine has a
model name of its own, as if each were another deployment: the costly case, because
replicas share what is known of their pages.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import time

from rich.console import Console
from rich.table import Table

from bench import peers
from bench.fleet import PORT, address
from enginewatch.alerting.judge import Retention
from enginewatch.alerting.rules import load_rule_files
from enginewatch.cli.run import collect_garbage_seldom
from enginewatch.collect.discovery import Discovery
from enginewatch.collect.pool import ScrapePool
from enginewatch.collect.scrape import wall_clock
from enginewatch.collect.target import ScrapeTarget
from enginewatch.config import Config
from enginewatch.recording import ScrapeEvent
from enginewatch.rulepack import rule_files
from enginewatch.store.head import Head


async def first_round(engines: int) -> tuple[float, float, int]:
    """Seconds of the clock and of the processor until all were scraped, and how many failed."""
    targets = [f"{address(n)}:{PORT}" for n in range(engines)]
    job = {"job_name": "fleet", "static_configs": [{"targets": targets}]}
    found = Discovery(Config.model_validate({"scrape_configs": [job]})).targets(wall_clock())
    missing = {target.target.labels for target in found.targets}
    failed = 0
    done = asyncio.Event()

    def observe(target: ScrapeTarget, event: ScrapeEvent) -> None:
        nonlocal failed
        if target.target.labels in missing:
            missing.remove(target.target.labels)
            failed += event.body is None
            if not missing:
                done.set()

    keep = Retention(load_rule_files(rule_files()))
    pool = ScrapePool(Head(keep=keep), wanted=keep.wants, observers=[observe])
    began, used = time.perf_counter(), time.process_time()
    pool.start()
    pool.sync(found.targets)
    await done.wait()
    spent = time.perf_counter() - began, time.process_time() - used, failed
    await pool.stop()
    return spent


def main() -> None:
    logging.disable()
    collect_garbage_seldom()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", type=int, nargs="+", default=[100, 1000])
    grid = Table(title="First scrape round")
    for heading in ("engines", "time", "CPU", "failed"):
        grid.add_column(heading, justify="right")
    for engines in parser.parse_args().engines:
        with peers.fleet(engines):
            seconds, processor, failed = asyncio.run(first_round(engines))
        grid.add_row(str(engines), f"{seconds:.2f} s", f"{processor:.2f} s", str(failed))
    Console().print(grid)


if __name__ == "__main__":
    main()
