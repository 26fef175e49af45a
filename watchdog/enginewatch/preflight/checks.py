"""The checks, each under the name of the file in `rules/preflight` that judges its samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from enginewatch.preflight import fleet, unread
from enginewatch.preflight.facts import Facts
from enginewatch.preflight.observe import Observed


class Check(NamedTuple):
    name: str
    samples: Callable[[Facts], Iterable[Observed]]


CHECKS: Final = (
    Check("inputs", unread.samples),
    Check("inputs", fleet.samples),
)


def samples(facts: Facts) -> Iterator[Observed]:
    """Everything that is learned from the facts, in the order of the checks."""
    for check in CHECKS:
        yield from check.samples(facts)
