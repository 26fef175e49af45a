"""Everything that was seen, with a bound on what is remembered of it, and questions about it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from enginewatch.evidence.expressions import Expression
from enginewatch.evidence.fields import Value
from enginewatch.evidence.reader import Match
from enginewatch.evidence.signatures import Case, Confidence, Field, Pick, Severity, Signature
from enginewatch.evidence.times import Stamp
from enginewatch.evidence.verdict import Evidence
from enginewatch.model import Millis

_SHOWN: Final = 20
_REMEMBERED: Final = 100
"""Matches of a signature that are kept from its beginning, and as many from its end."""


class _Ends:
    """The matches of one case of a signature: those at both ends, and the one that leads."""

    def __init__(self) -> None:
        self._first: Final[list[Match]] = []
        self._last: Final[deque[Match]] = deque(maxlen=_REMEMBERED)
        self._leader: Match | None = None

    def add(self, match: Match) -> None:
        if len(self._first) < _REMEMBERED:
            self._first.append(match)
        else:
            self._last.append(match)
        if self._leader is None or _weight(match) > _weight(self._leader):
            self._leader = match

    def __iter__(self) -> Iterator[Match]:
        yield from self._first
        yield from self._last
        if self._leader is not None and not any(
            match is self._leader for match in (*self._first, *self._last)
        ):
            yield self._leader


class Tally:
    """The matches of one signature: how many, and those remembered of each case."""

    def __init__(self, signature: Signature):
        self.signature: Final = signature
        self.count = 0
        self._cases: Final[dict[int, _Ends]] = {}

    def add(self, match: Match) -> None:
        self.count += match.line.repeat
        # A case seen once must not be lost between a thousand lines of another.
        self._cases.setdefault(id(match.case), _Ends()).add(match)

    @property
    def matches(self) -> list[Match]:
        """Those remembered, in order of lines: a match that waited came late."""
        found = [match for ends in self._cases.values() for match in ends]
        return sorted(found, key=lambda match: (match.source, match.line.number))


class Seen:
    """All matches of all sources. `gaps` are how long each verdict's incidents may be silent."""

    def __init__(self, gaps: Mapping[str, Millis]):
        self._gaps: Final = gaps
        self.tallies: Final[dict[str, Tally]] = {}
        self._newest: Final[dict[tuple[str, str], Stamp]] = {}
        self._incidents: Final[dict[str, int]] = {}

    def add(self, match: Match) -> None:
        signature = match.signature
        tally = self.tallies.get(signature.id)
        if tally is None:
            tally = self.tallies[signature.id] = Tally(signature)
        tally.add(match)
        if match.verdict:
            self._note_incident(match)

    def _note_incident(self, match: Match) -> None:
        """Matches of one verdict with no longer pause between them are one incident."""
        verdict, stamp = match.verdict, match.line.stamp
        self._incidents.setdefault(verdict, 1)
        if stamp is None:
            return
        # The kernel's clock and the wall's are followed apart.
        key = (verdict, "boot" if stamp.boot else "wall")
        newest = self._newest.get(key)
        span = stamp.since(newest)
        if span is not None and span > self._gaps.get(verdict, 0):
            self._incidents[verdict] += 1
        if span is None or span > 0:
            self._newest[key] = stamp

    def incidents(self, verdict: str) -> int:
        return self._incidents.get(verdict, 0)

    def count(self, *signatures: str) -> int:
        return sum(self.tallies[name].count for name in signatures if name in self.tallies)

    def matches(self, *signatures: str) -> list[Match]:
        return [
            m for name in signatures if name in self.tallies for m in self.tallies[name].matches
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that claims a verdict: a signature in one of its cases, or a rule.

    `key` is a signature's id or an alert's name. `matches` are those of the case,
    and empty for a rule, whose fields are in `fields`.
    """

    verdict: str
    severity: Severity
    confidence: Confidence
    key: str
    summary: str = ""
    advice: str = ""
    matches: tuple[Match, ...] = ()
    fields: Mapping[str, Value] = field(default_factory=dict)
    derived: Mapping[str, Value | Expression] = field(default_factory=dict)
    evidence: tuple[Evidence, ...] = ()
    explains: frozenset[str] = frozenset()
    explained_by: frozenset[str] = frozenset()
    rules_out: tuple[str, ...] = ()

    @property
    def signature(self) -> Signature | None:
        return self.matches[0].signature if self.matches else None


def findings_of(seen: Seen) -> Iterator[Finding]:
    """One finding for each case of each signature that claims a verdict."""
    for tally in seen.tallies.values():
        by_case: dict[int, list[Match]] = {}
        for match in tally.matches:
            if match.case is not None and match.case.verdict:
                by_case.setdefault(id(match.case), []).append(match)
        for matches in by_case.values():
            yield _finding(tally.signature, matches[0].case, matches)


def _finding(signature: Signature, case: Case | None, matches: Sequence[Match]) -> Finding:
    if case is None:
        raise ValueError("a finding has a case")
    # The first of those that weigh most.
    leader = max(matches, key=_weight)
    ordered = (leader, *(match for match in matches if match is not leader))
    return Finding(
        verdict=case.verdict,
        severity=case.severity,
        confidence=case.confidence,
        key=signature.id,
        summary=case.summary or signature.about,
        advice=case.advice,
        matches=ordered,
        derived=case.derived,
        evidence=tuple(match.evidence for match in ordered[:_SHOWN]),
        explains=case.explains,
        explained_by=case.explained_by,
        rules_out=case.rules_out,
    )


def _weight(match: Match) -> float:
    """How much a match speaks for all of its case: its value of `lead_by`, if there is one."""
    value = match.fields.get(match.signature.lead_by)
    return float(value) if isinstance(value, int | float) else float("-inf")


def picked(matches: Sequence[Match], own: Field) -> Value:
    """The value that stands for a field of several matches."""
    values = [match.fields[own.name] for match in matches if match.fields.get(own.name) is not None]
    if not values:
        return None
    if own.pick is Pick.LAST:
        return values[-1]
    numbers = [value for value in values if isinstance(value, int | float)]
    if own.pick is Pick.MIN and numbers:
        return min(numbers)
    if own.pick is Pick.MAX and numbers:
        return max(numbers)
    return values[0]


def agreeing(
    matches: Iterable[Match], joins: Iterable[str], fields: Mapping[str, Value]
) -> list[Match]:
    """Those that contradict none of `fields` in the names of `joins`."""
    return [
        match
        for match in matches
        if all(
            name not in fields or match.fields.get(name) in (None, fields[name]) for name in joins
        )
    ]
