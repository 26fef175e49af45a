"""Reading metrics pages, beside prometheus_client's parser in the same run.

Each row is the median time of one page; the parsers take turns, so that noise of
the machine meets all of them alike. The pages are those of the recorded vLLM server,
also as if it ran several data-parallel engines.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console
from rich.table import Table

from bench.fleet import RECORDING
from enginewatch.collect.ingest import Ingest
from enginewatch.exposition import PageCache, PageReader, parse_page
from enginewatch.model import Labels
from enginewatch.recording import ScrapeEvent, read_recording
from enginewatch.store.head import Head

TARGET = Labels(instance="a:8000", job="vllm", deployment="a")


class Figure(NamedTuple):
    what: str
    seconds: float


def recorded_pages() -> list[str]:
    """Two pages of one server that differ in many numbers and in nothing else."""
    events = (event for event in read_recording(RECORDING) if isinstance(event, ScrapeEvent))
    pages = [event.page for event in events if event.page is not None]
    return [pages[0], pages[60]]


def several(page: str, engines: int) -> bytes:
    """The page as a server with so many data-parallel engines would write it."""
    lines = []
    for line in page.splitlines(keepends=True):
        copies = engines if 'engine="0"' in line else 1
        lines += [line.replace('engine="0"', f'engine="{n}"') for n in range(copies)]
    return "".join(lines).encode()


def is_wanted(name: str) -> bool:
    """Some 120 of 400 series, as the shipped rules read."""
    return not name.endswith("_bucket") or "token_latency" in name or "first_token" in name


def rotated(page: bytes, families: int) -> bytes:
    """The same page with its first families moved to the end: all known, and a new layout."""
    blocks = page.decode().split("# HELP")[1:]
    turned = blocks[families:] + blocks[:families]
    return "".join(f"# HELP{block}" for block in turned).encode()


def reference(page: bytes) -> int:
    """What a user of prometheus_client would do."""
    return sum(len(family.samples) for family in text_string_to_metric_families(page.decode()))


def take_turns(contestants: dict[str, Callable[[int], object]], rounds: int) -> list[Figure]:
    """The median time of each. A turn is as many calls as take some ten milliseconds."""
    calls: dict[str, int] = {}
    for name, call in contestants.items():
        begun = time.perf_counter()
        call(0)
        call(1)
        calls[name] = max(1, int(0.02 / (time.perf_counter() - begun)))
    spent: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, call in contestants.items():
            begun = time.perf_counter()
            for number in range(calls[name]):
                call(number)
            spent[name].append((time.perf_counter() - begun) / calls[name])
    return [Figure(name, statistics.median(times)) for name, times in spent.items()]


def contestants(engines: int) -> dict[str, Callable[[int], object]]:
    pages = [several(page, engines) for page in recorded_pages()]
    turned = [rotated(pages[0], families) for families in range(1, 20)]
    packed = gzip.compress(pages[0])
    cache = PageCache()
    reader = PageReader(cache)
    reader.read(pages[0])
    head = Head()
    ingest = Ingest(TARGET, head.source("a"), PageReader(cache), wanted=is_wanted)

    times = itertools.count(0, 5_000)

    def store(number: int) -> object:
        return ingest.take(ScrapeEvent(TARGET, next(times), pages[number % 2]))

    return {
        "prometheus_client": lambda n: reference(pages[n % 2]),
        "page seen before": lambda n: reader.read(pages[n % 2]),
        "page seen before, into the store": store,
        "known series, new page": lambda n: PageReader(cache).read(turned[n % len(turned)]),
        "nothing known": lambda n: parse_page(pages[n % 2]),
        "(gunzip)": lambda _: gzip.decompress(packed),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--engines", type=int, nargs="+", default=[1, 2, 4])
    chosen = parser.parse_args()
    for engines in chosen.engines:
        page = several(recorded_pages()[0], engines)
        grid = Table(title=f"A page of {reference(page)} samples, {len(page) / 1024:.0f} KiB")
        grid.add_column("")
        grid.add_column("a page", justify="right")
        grid.add_column("ratio", justify="right")
        figures = take_turns(contestants(engines), chosen.rounds)
        for name, seconds in figures:
            ratio = figures[0].seconds / seconds
            grid.add_row(name, f"{seconds * 1e3:.3f} ms", f"{ratio:.1f}")
        Console().print(grid)


if __name__ == "__main__":
    main()
