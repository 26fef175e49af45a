"""Rules, CPU and memory on a fleet, beside Prometheus in the same run.

The two sides scrape the same engines at the same time with the same rules, so
that noise of the machine meets both. Rule time is the median over the run of
each side's own measure of all groups' last duration.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from bench import peers


@dataclass(frozen=True)
class Reading:
    name: str
    rule_ms: float
    cpu_percent: float
    rss_mib: float
    series: float


def measure(sides: list[peers.Peer], warm: float, seconds: float) -> list[Reading]:
    """Let both sides run for `warm` seconds, then read them for `seconds` more."""
    time.sleep(warm)
    began = time.monotonic()
    cpu = [side.cpu_seconds() for side in sides]
    rule_times: list[list[float]] = [[] for _ in sides]
    while time.monotonic() - began < seconds:
        time.sleep(5)
        for side, times in zip(sides, rule_times, strict=True):
            times.append(side.number(side.rule_seconds))
    spent = time.monotonic() - began
    return [
        Reading(
            side.name,
            statistics.median(times) * 1000,
            (side.cpu_seconds() - before) / spent * 100,
            side.rss_mib(),
            side.number("sum(scrape_samples_scraped)"),
        )
        for side, times, before in zip(sides, rule_times, cpu, strict=True)
    ]


def table(engines: int, readings: list[Reading]) -> Table:
    grid = Table(title=f"{engines} engines, scrapes and rules every 5 s")
    grid.add_column("")
    for heading in ("rules, all groups", "CPU of one core", "RSS", "samples a round"):
        grid.add_column(heading, justify="right")
    for r in readings:
        grid.add_row(
            r.name,
            f"{r.rule_ms:.1f} ms",
            f"{r.cpu_percent:.1f}%",
            f"{r.rss_mib:.0f} MiB",
            f"{r.series:,.0f}",
        )
    ours, theirs = readings
    ratios = (
        ours.rule_ms / theirs.rule_ms,
        ours.cpu_percent / theirs.cpu_percent,
        ours.rss_mib / theirs.rss_mib,
    )
    grid.add_row("ratio", *(f"{ratio:.2f}" for ratio in ratios), "")
    return grid


def run(engines: int, warm: float, seconds: float) -> None:
    with (
        peers.fleet(engines),
        peers.enginewatch(engines) as ours,
        peers.prometheus(engines) as theirs,
    ):
        Console().print(table(engines, measure([ours, theirs], warm, seconds)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--warm", type=float, default=60, help="seconds before measuring")
    parser.add_argument("--seconds", type=float, default=120, help="seconds of measuring")
    arguments = parser.parse_args()
    for engines in arguments.engines:
        run(engines, arguments.warm, arguments.seconds)


if __name__ == "__main__":
    main()
