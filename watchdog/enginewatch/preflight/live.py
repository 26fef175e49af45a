"""A running endpoint as samples: ready, really answering, and exporting what hazards need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from enginewatch.alerting.trace import HAZARD_BLIND
from enginewatch.evidence.verdict import Evidence
from enginewatch.preflight.facts import Facts
from enginewatch.preflight.observe import Observed, observed
from enginewatch.preflight.readers.endpoint import Endpoint

_PREFIX: Final = "enginewatch_preflight_endpoint_"


def samples(facts: Facts) -> Iterator[Observed]:
    """`enginewatch_preflight_endpoint_…`, by `endpoint`: `probe_info` (by `result`),
    `probe_seconds`, `health_status`, `scraped`; and `enginewatch_hazard_blind` as the daemon
    writes it, with `hazard` for the verdict that can't be reached."""
    for each in facts.endpoints:
        yield from _endpoint(each)


def _endpoint(each: Endpoint) -> Iterator[Observed]:
    told = f"a one-token request: {each.result} after {each.seconds:.2f} s"
    if each.problem:
        told = f"{told}, {each.problem}"
    probed = Evidence(each.url, 0, told)
    labels = {"endpoint": each.url}
    yield observed(f"{_PREFIX}probe_info", 1, probed, **labels, result=each.result)
    if each.result == "answered":
        yield observed(f"{_PREFIX}probe_seconds", each.seconds, probed, **labels)
    if each.health is not None:
        health = Evidence(each.url, 0, f"health page: HTTP {each.health or 'no answer'}")
        yield observed(f"{_PREFIX}health_status", each.health, health, **labels)
    scraped = each.unscraped or f"{each.samples} samples, recognised as {each.runtime or 'nothing'}"
    page = Evidence(each.url, 0, f"metrics page: {scraped}")
    yield observed(f"{_PREFIX}scraped", not each.unscraped, page, **labels, reason=each.unscraped)
    for blind in each.blind:
        missing = Evidence(each.url, 0, f"{', '.join(blind.alerts)}: {blind.missing}")
        yield observed(
            HAZARD_BLIND,
            1,
            missing,
            **labels,
            hazard=blind.verdict,
            missing=blind.missing,
            cause=blind.cause,
            alerts=", ".join(blind.alerts),
            runtime=blind.runtime,
        )
