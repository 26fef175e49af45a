"""Whether receivers heard of an incident as they should: values to values, no clock, no I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from enginechaos.receivers.inbox import Delivery


@dataclass(frozen=True)
class Expected:
    """A page that is due. `also` are verdicts that may be told of beside it, `warned` is the
    severity of a warning that may go before it under the same verdict."""

    verdict: str
    severity: str = "page"
    also: frozenset[str] = frozenset()
    warned: str = ""


def pages_of(verdict: str, deliveries: Iterable[Delivery], receiver: str) -> list[Delivery]:
    """What one receiver heard of a verdict, in order."""
    return [d for d in deliveries if d.receiver == receiver and d.verdict == verdict]


def first_page(
    expected: Expected, deliveries: Iterable[Delivery], receiver: str
) -> Delivery | None:
    heard = pages_of(expected.verdict, deliveries, receiver)
    return next((d for d in heard if d.firing and d.severity != expected.warned), None)


def resolve_of(expected: Expected, deliveries: Sequence[Delivery], receiver: str) -> bool:
    """Whether the last that the receiver heard of it is that it is over."""
    heard = pages_of(expected.verdict, deliveries, receiver)
    return bool(heard) and not heard[-1].firing


def faults(
    expected: Expected, deliveries: Sequence[Delivery], receivers: Collection[str]
) -> Iterator[str]:
    """What is wrong with how the page came and went, once it is over: each receiver once."""
    for receiver in receivers:
        heard = pages_of(expected.verdict, deliveries, receiver)
        yield from (f"{receiver}: {wrong}" for wrong in _story_faults(expected, heard))


def _story_faults(expected: Expected, heard: Sequence[Delivery]) -> Iterator[str]:
    fired = [d for d in heard if d.firing]
    if not fired:
        yield "was not paged"
        return
    keys = sorted({d.key for d in heard})
    if len(keys) > 1:
        yield f"{len(keys)} incidents for one: {', '.join(keys)}"
    elif not keys[0]:
        yield "no dedup key"
    wrong = sorted({d.severity for d in fired} - {expected.severity, expected.warned})
    if wrong:
        yield f"severity {', '.join(map(repr, wrong))}, expected {expected.severity!r}"
    for before, after in pairwise(heard):
        if before.firing and after.firing and before.alerts == after.alerts:
            yield f"paged twice with the same news, {after.at - before.at:.0f} s apart"
        if not before.firing and after.firing:
            yield f"fired again {after.at - before.at:.0f} s after its resolve"
        if not before.firing and not after.firing:
            yield "resolved twice"
    if heard[-1].firing:
        yield "was never told that it is over"


def unexpected(
    expected: Collection[Expected], deliveries: Iterable[Delivery], deployment: str
) -> list[str]:
    """What receivers heard that nobody expects."""
    known = {v for each in expected for v in (each.verdict, *each.also)}
    return [
        f"{d.receiver}: {'firing' if d.firing else 'resolved'} {d.verdict or 'without a verdict'}"
        + (f" of {d.deployment or 'no deployment'}" if d.deployment != deployment else "")
        + (f" ({d.severity})" if d.severity else "")
        + (f": {d.headline}" if d.headline else "")
        for d in deliveries
        if d.verdict not in known or d.deployment != deployment
    ]
