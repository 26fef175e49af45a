"""Reading metrics pages, beside prometheus_client's parser in the same run.

Each row is the median time of one page; the parsers take turns, so that noise of
the machine meets all of them. Pages are those of a vLLM server with so many
data-parallel engines, as prometheus_client renders them.
"""

from __future__ import annotations

import argparse
import gzip
import random
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console
from rich.table import Table

from enginewatch.collect.ingest import Ingest
from enginewatch.exposition import PageCache, PageReader, parse_page
from enginewatch.model import Labels
from enginewatch.recording import ScrapeEvent
from enginewatch.store.head import Head

GAUGES = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
COUNTERS = (
    "num_preemptions", "prompt_tokens", "generation_tokens", "prefix_cache_queries",
    "prefix_cache_hits", "external_prefix_cache_queries", "external_prefix_cache_hits",
    "mm_cache_queries", "mm_cache_hits",
)  # fmt: skip
HISTOGRAMS = (
    "iteration_tokens_total", "time_to_first_token_seconds", "inter_token_latency_seconds",
    "request_time_per_output_token_seconds", "e2e_request_latency_seconds",
    "request_queue_time_seconds", "request_prefill_time_seconds", "request_decode_time_seconds",
    "request_inference_time_seconds", "request_prompt_tokens", "request_generation_tokens",
    "request_max_num_generation_tokens", "request_params_n", "request_params_max_tokens",
    "request_prefill_kv_computed_tokens",
)  # fmt: skip
BUCKETS = tuple(0.001 * 2**n for n in range(19))


class Figure(NamedTuple):
    what: str
    seconds: float


def vllm_page(engines: int, seed: int, model: str = "meta-llama/Llama-3.1-8B-Instruct") -> bytes:
    """A page with some 400 samples an engine; another seed changes the numbers only."""
    chance = random.Random(seed)  # noqa: S311
    registry = CollectorRegistry()
    names = ("model_name", "engine")
    for name in GAUGES:
        gauge = Gauge(f"vllm:{name}", f"Help of {name}.", names, registry=registry)
        for engine in range(engines):
            gauge.labels(model, str(engine)).set(chance.random())
    for name in COUNTERS:
        counter = Counter(f"vllm:{name}", f"Help of {name}.", names, registry=registry)
        for engine in range(engines):
            counter.labels(model, str(engine)).inc(chance.randrange(10**6))
    for name in HISTOGRAMS:
        histogram = Histogram(
            f"vllm:{name}", f"Help of {name}.", names, registry=registry, buckets=BUCKETS
        )
        for engine in range(engines):
            histogram.labels(model, str(engine)).observe(chance.expovariate(2))
    return generate_latest(registry)


def is_wanted(name: str) -> bool:
    """About as many series as the shipped rules name: 120 of 400."""
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
    """The median time of each; `round` numbers are passed on so that no call is like the last."""
    spent: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds):
        for name, call in contestants.items():
            begun = time.perf_counter()
            call(number)
            spent[name].append(time.perf_counter() - begun)
    return [Figure(name, statistics.median(times)) for name, times in spent.items()]


def contestants(engines: int) -> dict[str, Callable[[int], object]]:
    pages = [vllm_page(engines, seed) for seed in range(2)]
    turned = [rotated(pages[0], families) for families in range(1, 20)]
    packed = gzip.compress(pages[0])
    cache = PageCache()
    reader = PageReader(cache)
    reader.read(pages[0])
    head = Head()
    labels = Labels(instance="a:8000", job="vllm", deployment="a")
    ingest = Ingest(labels, head.source("a"), PageReader(cache), wanted=is_wanted)

    def store(number: int) -> object:
        return ingest.take(ScrapeEvent(labels, 5_000 * number, pages[number % 2]))

    return {
        "prometheus_client": lambda n: reference(pages[n % 2]),
        "page seen before": lambda n: reader.read(pages[n % 2]),
        "page seen before, into the store": store,
        "known series, new page": lambda n: PageReader(cache).read(turned[n % len(turned)]),
        "nothing known": lambda n: parse_page(pages[n % 2]),
        "(gunzip)": lambda _: gzip.decompress(packed),
    }


def first_round(engines: int, *, alike: bool) -> Figure:
    """The first page of each of so many targets, read and stored; no network."""
    pages = [
        vllm_page(1, 0, "meta-llama/Llama-3.1-8B-Instruct" if alike else f"model-{n}")
        for n in range(1 if alike else engines)
    ]
    cache, head = PageCache(), Head()
    ingests = []  # kept, as a pool does: replicas share the layouts that are in use
    begun = time.perf_counter()
    for n in range(engines):
        labels = Labels(instance=f"{n}:8000", job="vllm", deployment="a")
        ingest = Ingest(
            labels,
            head.source(n),
            PageReader(cache),
            wanted=is_wanted,
        )
        ingest.take(ScrapeEvent(labels, 5_000, pages[n % len(pages)]))
        ingests.append(ingest)
    kind = "replicas" if alike else "deployments of one"
    return Figure(f"first round of {engines} engines, {kind}", time.perf_counter() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--engines", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--targets", type=int, default=1000, help="in the first round")
    chosen = parser.parse_args()
    for engines in chosen.engines:
        page = vllm_page(engines, 0)
        grid = Table(title=f"A page of {reference(page)} samples, {len(page) / 1024:.0f} KiB")
        grid.add_column("")
        grid.add_column("a page", justify="right")
        grid.add_column("ratio", justify="right")
        figures = take_turns(contestants(engines), chosen.rounds)
        for name, seconds in figures:
            ratio = figures[0].seconds / seconds
            grid.add_row(name, f"{seconds * 1e3:.3f} ms", f"{ratio:.1f}")
        Console().print(grid)
    for alike in (True, False):
        name, seconds = first_round(chosen.targets, alike=alike)
        Console().print(f"{name}: {seconds:.2f} s")


if __name__ == "__main__":
    main()
