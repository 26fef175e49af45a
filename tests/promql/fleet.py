"""Synthetic samples of a small fleet of engines, with all that makes metrics awkward.

Counters that restart, missed scrapes, jitter, an engine that dies and one that
comes later, labels that change, infinite and missing values. Everything follows
from the seed; the first scrape is at `START`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

from enginewatch.model import Labels, Millis

START: Millis = 1_700_000_000_000
SCRAPES = 360
INTERVAL: Millis = 15_000
END: Millis = START + SCRAPES * INTERVAL

COUNTERS = ("engine_requests_total", "engine_tokens_total", "engine_preemptions_total")
GAUGES = (
    "engine_running_requests",
    "engine_waiting_requests",
    "engine_cache_usage_ratio",
    "engine_temperature_celsius",
    "engine_start_time_seconds",
    "engine_build_info",
    "engine_limit",
)
HISTOGRAMS = ("engine_token_latency_seconds", "engine_first_token_seconds")
BOUNDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)

LABELS = {
    "instance": ("engine-1:8000", "engine-2:8000", "engine-3:8000", "engine-4:8000"),
    "job": ("vllm", "sglang"),
    "model": ("llama-8b", "qwen-32b"),
    "rank": ("0", "1"),
    "version": ("1.0", "1.1"),
    "le": ("0.1", "1.0", "+Inf"),
}

Sample = tuple[Millis, float]


def fleet(seed: int) -> Iterator[tuple[Labels, list[Sample]]]:
    """The series and their samples."""
    for number, instance in enumerate(LABELS["instance"]):
        yield from _Engine(random.Random(f"{seed} {instance}"), number, instance).series()
    for job in LABELS["job"]:
        labels = Labels(__name__="engine_limit", job=job)
        yield labels, [(START + n * 60_000, 4.0 + n // 40) for n in range(90)]


class _Engine:
    def __init__(self, rng: random.Random, number: int, instance: str):
        self._rng = rng
        self._number = number
        self._base = {"instance": instance, "job": LABELS["job"][number % 2]}
        first = 200 if number == 3 else 0
        last = 250 if number == 2 else SCRAPES
        jitter = [rng.randrange(-40, 40) if number else 0 for _ in range(SCRAPES)]
        self._scrapes = [
            (n, START + n * INTERVAL + jitter[n]) for n in range(first, last) if rng.random() > 0.04
        ]
        self._restart = rng.randrange(120, 180)

    def series(self) -> Iterator[tuple[Labels, list[Sample]]]:
        for model in LABELS["model"][: 1 + self._number % 2]:
            for rank in LABELS["rank"]:
                yield from self._of_rank({"model": model, "rank": rank})
        yield from self._of_process()

    def _labels(self, name: str, **more: str) -> Labels:
        return Labels(self._base, __name__=name, **more)

    def _of_rank(self, labels: dict[str, str]) -> Iterator[tuple[Labels, list[Sample]]]:
        for name, speed in zip(COUNTERS, (3, 250.5, 0.05), strict=True):
            yield self._labels(name, **labels), list(self._counter(speed))
        for name, top in zip(GAUGES[:2], (16, 3), strict=True):
            yield (
                self._labels(name, **labels),
                [(at, float(self._rng.randint(0, top))) for _, at in self._scrapes],
            )
        yield self._labels(GAUGES[2], **labels), list(self._wave())
        for name, scale in zip(HISTOGRAMS, (0.2, 1.5), strict=True):
            yield from self._histogram(name, scale, labels)

    def _counter(self, speed: float) -> Iterator[Sample]:
        value, before = self._rng.choice((0.0, 0.0, 7.0, 1e6)), self._scrapes[0][0]
        for n, at in self._scrapes:
            if before < self._restart <= n:
                value = 0.0
            busy = (n // 30) % 4 != 3
            value += sum(self._rng.expovariate(1 / speed) for _ in range(n - before)) * busy
            value = math.floor(value) if speed < 100 else value
            before = n
            yield at, value

    def _wave(self) -> Iterator[Sample]:
        for n, at in self._scrapes:
            level = 0.5 + 0.4 * math.sin(n / 17 + self._number) + self._rng.gauss(0, 0.01)
            yield at, math.nan if n % 97 == 5 else 1.0 if n % 89 < 12 else level

    def _histogram(
        self, name: str, scale: float, labels: dict[str, str]
    ) -> Iterator[tuple[Labels, list[Sample]]]:
        bounds = (*BOUNDS, math.inf)
        counts = [0] * len(bounds)
        total, columns, sums = 0.0, [], []
        for n, at in self._scrapes:
            if n == self._restart:
                counts, total = [0] * len(bounds), 0.0
            for _ in range(self._rng.randrange(12)):
                seconds = self._rng.lognormvariate(math.log(scale), 1)
                total += seconds
                counts = [c + (seconds <= bound) for c, bound in zip(counts, bounds, strict=True)]
            columns.append((at, tuple(counts)))
            sums.append((at, total))
        for place, bound in enumerate(bounds):
            le = "+Inf" if bound == math.inf else str(bound)
            samples = [(at, float(row[place])) for at, row in columns]
            yield self._labels(f"{name}_bucket", le=le, **labels), samples
        yield self._labels(f"{name}_sum", **labels), sums
        yield self._labels(f"{name}_count", **labels), [(at, float(row[-1])) for at, row in columns]

    def _of_process(self) -> Iterator[tuple[Labels, list[Sample]]]:
        for rank in LABELS["rank"]:
            degrees = [(at, 60 + self._rng.gauss(0, 3)) for _, at in self._scrapes]
            degrees = [(at, math.inf if v > 69 else -v if v < 52 else v) for at, v in degrees]
            yield self._labels(GAUGES[3], rank=rank), degrees
        starts = (START / 1000 - 86_400 * 400 + 1234.5, (START + self._restart * INTERVAL) / 1000)
        yield (
            self._labels(GAUGES[4]),
            [(at, starts[n >= self._restart]) for n, at in self._scrapes],
        )
        for old, version in enumerate(LABELS["version"]):
            samples = [(at, 1.0) for n, at in self._scrapes if (n >= self._restart) == bool(old)]
            yield self._labels(GAUGES[5], version=version), samples
