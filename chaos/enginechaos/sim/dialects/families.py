"""Metric families of one engine: its prefix, its labels, and the names that its version has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics import MetricWrapperBase
from starlette.responses import Response

_Kind = TypeVar("_Kind", bound=MetricWrapperBase)


def text_page(registry: CollectorRegistry) -> Response:
    """A registry as most engines serve theirs."""
    return Response(generate_latest(registry), media_type="text/plain; version=0.0.4")


@dataclass
class Families:
    """`renamed`: what a version calls it otherwise; None for what it has not, which is counted all
    the same."""

    prefix: str
    labels: Mapping[str, str]
    renamed: Mapping[str, str | None] = field(default_factory=dict)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    def gauge(self, name: str, about: str) -> Gauge:
        return self._of(Gauge, name, about)

    def gauges(self, name: str, about: str, label: str, values: Sequence[str]) -> dict[str, Gauge]:
        return self._by(Gauge, name, about, label, values)

    def counter(self, name: str, about: str) -> Counter:
        return self._of(Counter, name, about)

    def counters(
        self, name: str, about: str, label: str, values: Sequence[str]
    ) -> dict[str, Counter]:
        return self._by(Counter, name, about, label, values)

    def histogram(self, name: str, about: str, buckets: Sequence[float]) -> Histogram:
        return self._of(Histogram, name, about, buckets=buckets)

    def _of(self, kind: type[_Kind], name: str, about: str, **more: Any) -> _Kind:
        family = kind(
            self._called(name), about, list(self.labels), registry=self._where(name), **more
        )
        return family.labels(**self.labels) if self.labels else family

    def _by(
        self, kind: type[_Kind], name: str, about: str, label: str, values: Sequence[str]
    ) -> dict[str, _Kind]:
        family = kind(self._called(name), about, [*self.labels, label], registry=self._where(name))
        return {value: family.labels(**self.labels, **{label: value}) for value in values}

    def _called(self, name: str) -> str:
        return self.prefix + (self.renamed.get(name) or name)

    def _where(self, name: str) -> CollectorRegistry | None:
        return None if self.renamed.get(name, name) is None else self.registry


def value(metric: Counter | Gauge) -> float:
    """As it would be served now."""
    return next(iter(metric.collect())).samples[0].value
