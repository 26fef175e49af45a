"""The checks, each under the name of the file in `rules/preflight` that judges its samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from enginewatch.preflight import (
    architecture,
    canary,
    fleet,
    launch_check,
    live,
    memory_check,
    prefill,
    quality,
    stale,
    timeouts,
    triton,
    unread,
    versions,
)
from enginewatch.preflight.facts import Facts
from enginewatch.preflight.observe import Observed
from enginewatch.preflight.sheet import Sheet


class Check(NamedTuple):
    """`sheets` are the sums that the report shows beside the findings."""

    name: str
    samples: Callable[[Facts], Iterable[Observed]]
    sheets: Callable[[Facts], Iterable[Sheet]] = lambda _: ()


CHECKS: Final = (
    Check("inputs", unread.samples),
    Check("inputs", fleet.samples),
    Check("architecture", architecture.samples),
    Check("versions", versions.samples),
    Check("stale", stale.samples),
    Check("triton", triton.samples),
    Check("launch", launch_check.samples),
    Check("memory", memory_check.samples, memory_check.sheets),
    Check("prefill", prefill.samples),
    Check("timeouts", timeouts.samples),
    Check("quality", quality.samples),
    Check("canary", canary.samples),
    Check("live", live.samples),
)


def samples(facts: Facts) -> Iterator[Observed]:
    """Everything that is learned from the facts, in the order of the checks."""
    for check in CHECKS:
        yield from check.samples(facts)


def sheets(facts: Facts) -> Iterator[Sheet]:
    for check in CHECKS:
        yield from check.sheets(facts)
