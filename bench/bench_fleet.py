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
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import peers
from enginewatch.alerting.rules import load_rule_files
from enginewatch.rulepack import rule_files

PACKS = {"vllm": "vLLM's and the hazards'", "whole": "the whole pack"}
"""What is loaded on both sides."""


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


def table(engines: int, pack: str, rules: int, readings: list[Reading]) -> Table:
    title = f"{engines} engines, {rules} rules ({PACKS[pack]}), scrapes and rules every 5 s"
    grid = Table(title=title)
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


def rule_paths(pack: str) -> tuple[Path, ...]:
    """All shipped rules, or those of a shop that runs vLLM only."""
    paths = rule_files()
    if pack == "whole":
        return paths
    return tuple(path for path in paths if path.parent.name == "hazards" or path.stem == "vllm")


def run(engines: int, pack: str, warm: float, seconds: float) -> Table:
    paths = rule_paths(pack)
    rules = sum(len(group.rules) for file in load_rule_files(paths) for group in file.groups)
    with (
        peers.enginewatch(engines, paths) as ours,
        peers.prometheus(engines, paths) as theirs,
    ):
        return table(engines, pack, rules, measure([ours, theirs], warm, seconds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--packs", choices=sorted(PACKS), nargs="+", default=["vllm", "whole"])
    parser.add_argument("--warm", type=float, default=30, help="seconds before measuring")
    parser.add_argument("--seconds", type=float, default=45, help="seconds of measuring")
    arguments = parser.parse_args()
    for engines in arguments.engines:
        with peers.fleet(engines):
            for pack in arguments.packs:
                Console().print(run(engines, pack, arguments.warm, arguments.seconds))


if __name__ == "__main__":
    main()
