"""What was found in logs: counters, values and evidence, ready to be written as samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from enginewatch.evidence.reader import Match
from enginewatch.evidence.ring import EvidenceRing
from enginewatch.model import METRIC_NAME, Labels, Millis, Sample

MATCHES: Final = "enginewatch_log_matches_total"
LAST_MATCH: Final = "enginewatch_log_last_match_timestamp_seconds"
"""When a line was last found, in Unix time. Rules judge by it: it needs no counter to have been
seen at 0 first, and means the same in every evaluator."""

_MOST_VALUES: Final = 10_000
"""Series that signatures may make of fields, which come from logs."""


class Found:
    """Counts matches by signature, verdict and target, and keeps the newest of their values."""

    def __init__(self, ring: EvidenceRing):
        self._ring: Final = ring
        self._counts: Final[Counter[Labels]] = Counter()
        self._last: Final[dict[Labels, Millis]] = {}
        self._values: Final[dict[Labels, float]] = {}

    def add(self, match: Match, target: Labels, now: Millis) -> None:
        """Note a match in a log of this target. Lines that mean nothing here are not counted."""
        for sample in match.samples():
            labels = Labels({**sample.labels, **target})
            if len(self._values) < _MOST_VALUES or labels in self._values:
                self._values[labels] = sample.value
        case = match.case
        if case is None:
            return
        labels = target.with_(
            signature=match.signature.id,
            verdict=case.verdict,
            severity=str(case.severity),
            confidence=str(case.confidence),
        )
        self._counts[labels] += match.line.repeat
        self._last[labels] = now
        if case.verdict:
            # Lines are counted from where following began, which tells a reader nothing.
            self._ring.add(case.verdict, target, match.evidence._replace(line=0), now)

    def samples(self) -> Iterator[Sample]:
        for labels, count in self._counts.items():
            yield Sample(labels.with_(**{METRIC_NAME: MATCHES}), float(count))
        for labels, at in self._last.items():
            yield Sample(labels.with_(**{METRIC_NAME: LAST_MATCH}), at / 1000)
        for labels, value in self._values.items():
            yield Sample(labels, value)
