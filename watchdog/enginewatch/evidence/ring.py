"""The newest lines that speak for each verdict about each deployment, for those who are paged."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import replace
from threading import Lock
from typing import Final, NamedTuple

from enginewatch.evidence.verdict import Evidence
from enginewatch.model import Alert, Labels, Millis, freeze

_MOST_LINES: Final = 20
_MOST_RINGS: Final = 2_000
_LINES_TOLD: Final = 5
_AGE_TOLD: Final[Millis] = 15 * 60_000
"""What is older is of an earlier incident."""


class _Entry(NamedTuple):
    at: Millis
    labels: Labels
    evidence: Evidence


class EvidenceRing:
    """Bounded however many lines and deployments there are; to be used from any thread."""

    def __init__(self) -> None:
        self._lock: Final = Lock()
        self._rings: OrderedDict[tuple[str, str], deque[_Entry]] = OrderedDict()

    def add(self, verdict: str, labels: Labels, evidence: Evidence, at: Millis) -> None:
        """Keep a line about whatever has these labels."""
        key = (labels.get("deployment", ""), verdict)
        with self._lock:
            if key not in self._rings:
                self._rings[key] = deque(maxlen=_MOST_LINES)
                if len(self._rings) > _MOST_RINGS:
                    self._rings.popitem(last=False)
            self._rings.move_to_end(key)
            self._rings[key].append(_Entry(at, labels, evidence))

    def lines(self, alert: Mapping[str, str], now: Millis) -> list[str]:
        """The newest lines for an alert of these labels, oldest first, as `source:line: text`
        or `source: text`.

        Lines about another instance, or another GPU, than the alert's are left out;
        those of a whole host or deployment are not.
        """
        deployment, verdict = alert.get("deployment", ""), alert.get("verdict", "")
        with self._lock:
            keys = dict.fromkeys(((deployment, verdict), ("", verdict)))
            found = [entry for key in keys for entry in self._rings.get(key, ())]
        fitting = [
            entry
            for entry in sorted(found, key=lambda entry: entry.at)
            if now - entry.at <= _AGE_TOLD
            and all(alert.get(name, value) == value for name, value in entry.labels.items())
        ]
        told = (entry.evidence for entry in fitting[-_LINES_TOLD:])
        return [
            f"{one.source}:{one.line}: {one.text}" if one.line else f"{one.source}: {one.text}"
            for one in told
        ]

    def attached(self, alert: Alert, now: Millis) -> Alert:
        """The alert with these lines in its annotation `evidence`, after those it has already."""
        lines = self.lines(alert.labels, now) if alert.resolved_at is None else []
        if not lines:
            return alert
        given = [text] if (text := alert.annotations.get("evidence")) else []
        evidence = "\n".join((*given, *lines))
        return replace(alert, annotations=freeze({**alert.annotations, "evidence": evidence}))
