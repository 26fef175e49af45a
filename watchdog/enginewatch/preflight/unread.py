"""Inputs that could not be read: `enginewatch_preflight_unread`."""

from __future__ import annotations

from collections.abc import Iterator

from enginewatch.evidence.verdict import Evidence
from enginewatch.preflight.facts import Facts
from enginewatch.preflight.observe import Observed, observed


def samples(facts: Facts) -> Iterator[Observed]:
    """1 by `input` (its place), `what` and the `check` that goes without it."""
    for each in facts.unread:
        yield observed(
            "enginewatch_preflight_unread",
            1,
            Evidence(each.where, 0, each.what),
            input=each.where,
            what=each.what,
            check=each.check,
        )
