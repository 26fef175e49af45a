"""The embedded store's memory and speed: `python bench/bench_store.py`.

Times are medians of CPU time, which a busy machine changes least. The rounds' own
time is synthetic: an hour of them is written as fast as it goes.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import psutil

from enginewatch.model import METRIC_NAME, Labels, Matcher, MatchOp
from enginewatch.store.base import IntArray
from enginewatch.store.head import Head
from enginewatch.store.source import Source

MIB = 1 << 20


class Row(NamedTuple):
    what: str
    figure: str


class Fleet(NamedTuple):
    """A head and its writers, each with the refs of all its series."""

    head: Head
    writers: list[tuple[Source, IntArray]]


def labels(engine: int, series: int) -> Labels:
    """Like a vLLM histogram's bucket: eight labels, most of them the same on every line."""
    return Labels(
        {
            METRIC_NAME: f"vllm:metric_{series // 10}_bucket",
            "deployment": f"demo-{engine // 10}",
            "engine": "0",
            "instance": f"10.0.{engine // 250}.{engine % 250}:8000",
            "job": "vllm",
            "le": str(series % 10),
            "model_name": "meta-llama/Llama-3.3-70B-Instruct",
            "runtime": "vllm",
        }
    )


def fleet(engines: int, series: int, retention: int) -> Fleet:
    head = Head(keep=lambda _: retention)
    writers = []
    for engine in range(engines):
        source = head.source(engine)
        refs = [source.resolve(labels(engine, i)) for i in range(series)]
        writers.append((source, np.array(refs, np.int64)))
    return Fleet(head, writers)


def write(fleet: Fleet, first: int, rounds: int, interval: int) -> list[float]:
    """Rounds for every source; the answer is the seconds each took, for all sources together."""
    spent = []
    most = max(len(refs) for _, refs in fleet.writers)
    for k in range(first, first + rounds):
        values = np.full(most, float(k))
        begun = time.thread_time()
        for source, refs in fleet.writers:
            source.append(k * interval, refs, values[: len(refs)])
        spent.append(time.thread_time() - begun)
    return spent


def median_ms(call: Callable[[], object], times: int = 200) -> str:
    spent = []
    for _ in range(times):
        begun = time.thread_time()
        call()
        spent.append(time.thread_time() - begun)
    return f"{statistics.median(spent) * 1e3:.3f} ms"


def rss() -> int:
    gc.collect()
    resident: int = psutil.Process().memory_info().rss
    return resident


def memory(engines: int, series: int, hours: float, interval: int) -> Iterator[Row]:
    """An hour in memory, and what the labels of the series cost beside it."""
    idle = rss()
    retention = int(hours * 3_600_000)
    crowd = fleet(engines, series, retention)
    count = engines * series
    named = rss()
    rounds = retention // interval
    write(crowd, 0, rounds + rounds // 4, interval)
    demanded = count * rounds
    held = crowd.head.stats().bytes
    full = rss()
    yield Row("process before, MiB", f"{idle / MIB:.0f}")
    yield Row(f"labels and refs of {count} series, B/series", f"{(named - idle) / count:.0f}")
    yield Row(f"arrays, {rounds} rounds, B/sample", f"{held / demanded:.2f}")
    yield Row("RSS for it all, B/sample", f"{(full - idle) / demanded:.2f}")
    yield Row("process after, MiB", f"{full / MIB:.0f}")


def appends() -> Iterator[Row]:
    for engines, series in ((1, 50_000), (125, 400)):
        crowd = fleet(engines, series, 600_000)
        spent = write(crowd, 0, 240, 5000)[130:]
        figure = f"{statistics.median(spent) * 1e3:.2f} ms"
        yield Row(f"append 50k series of {engines} sources", figure)


def reads() -> Iterator[Row]:
    name = Matcher(METRIC_NAME, MatchOp.EQUAL, "vllm:metric_0_bucket")
    bucket = Matcher("le", MatchOp.EQUAL, "3")
    for engines, matchers in ((100, (name,)), (1000, (name, bucket))):
        crowd = fleet(engines, 20, 900_000)
        for k in range(300):  # scrapes are spread over the interval, as in a daemon
            for engine, (source, refs) in enumerate(crowd.writers):
                source.append(k * 5000 + engine * 5000 // engines, refs, np.full(20, float(k)))
        yield from read(crowd.head, matchers, 299 * 5000 + 2500, engines)


def read(head: Head, matchers: tuple[Matcher, ...], now: int, engines: int) -> Iterator[Row]:
    after = now - 300_000
    found = head.window(matchers, after, now)
    count, length = len(found.layout), int(found.counts.max())
    yield Row(
        f"window {count} x {length} of {engines} sources",
        median_ms(lambda: head.window(matchers, after, now)),
    )
    yield Row(
        f"instant {count} of {engines} sources",
        median_ms(lambda: head.instant(matchers, now, 300_000)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", type=int, default=100)
    parser.add_argument("--series", type=int, default=138, help="kept per engine")
    parser.add_argument("--hours", type=float, default=1.0, help="retention")
    parser.add_argument("--interval", type=int, default=5000, help="of scrapes, ms")
    chosen = parser.parse_args()
    rows = [
        *memory(chosen.engines, chosen.series, chosen.hours, chosen.interval),
        *appends(),
        *reads(),
    ]
    width = max(len(row.what) for row in rows)
    for row in rows:
        print(f"{row.what:{width}}  {row.figure:>10}")


if __name__ == "__main__":
    main()
