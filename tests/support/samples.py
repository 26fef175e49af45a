"""What a head holds at one time, in words."""

from __future__ import annotations

from enginewatch.model import METRIC_NAME, Labels, Matcher, MatchOp, Millis
from enginewatch.store.head import Head

MINUTE = 60_000


def series_at(head: Head, metric: str, at: Millis) -> dict[Labels, float]:
    """The live series of a metric, without its name, and their values."""
    matcher = Matcher(METRIC_NAME, MatchOp.EQUAL, metric)
    found = head.instant((matcher,), at, MINUTE)
    return {
        labels.without(METRIC_NAME): float(value)
        for labels, value, there in zip(
            found.layout.labels, found.values, found.present, strict=True
        )
        if there
    }
