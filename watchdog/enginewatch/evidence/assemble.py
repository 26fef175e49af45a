"""The fields of a verdict: from the lines that claim it, those that feed it, and what follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from enginewatch.evidence.expressions import Expression
from enginewatch.evidence.fields import Value
from enginewatch.evidence.functions import functions_of
from enginewatch.evidence.incident import Finding, Seen, agreeing, picked
from enginewatch.evidence.reader import Match
from enginewatch.evidence.signatures import Field, Signature
from enginewatch.evidence.verdict import Evidence


@dataclass(frozen=True, slots=True)
class Fact:
    """Fields that a document or the context gave. `feeds` are the verdicts that take them."""

    fields: Mapping[str, Value]
    derived: Mapping[str, Value | Expression]
    feeds: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a verdict stands on.

    `best` leads; `chosen` are all findings of its verdict, it among them; `followers`
    are findings of other verdicts that it explains.
    """

    best: Finding
    chosen: Sequence[Finding]
    followers: Sequence[Finding]
    seen: Seen
    facts: Sequence[Fact]


@dataclass(slots=True)
class Fields:
    """`used` are lines that lent a field without claiming the verdict."""

    read: dict[str, Value] = field(default_factory=dict)
    derived: dict[str, Value] = field(default_factory=dict)
    used: list[Evidence] = field(default_factory=list)


def assemble(ground: Ground, derived: Mapping[str, Value | Expression]) -> Fields:
    """All fields; where several give one, those nearest to the verdict's own lines win.

    `derived` are those that the table of verdicts asks of every incident of its kind.
    """
    build = _Build(ground)
    for finding in ground.chosen:
        build.take(finding)
    verdict = ground.best.verdict
    for tally in ground.seen.tallies.values():
        if verdict in tally.signature.feeds:
            build.take_matches(tally.signature, tally.matches, note=True)
    for fact in ground.facts:
        if verdict in fact.feeds:
            build.merge(fact.fields)
    for finding in ground.followers:
        build.take(finding)
    for finding in ground.chosen:
        build.derive(finding.derived)
    for fact in ground.facts:
        if verdict in fact.feeds:
            build.derive(fact.derived)
    build.derive(derived)
    return build.fields


class _Build:
    def __init__(self, ground: Ground):
        self.fields: Final = Fields()
        self._functions: Final = functions_of(_Questions(ground))

    def take(self, finding: Finding) -> None:
        if finding.signature is not None:
            self.take_matches(finding.signature, finding.matches)
        self.merge(finding.fields)

    def take_matches(
        self, signature: Signature, matches: Sequence[Match], *, note: bool = False
    ) -> None:
        fitting = agreeing(matches, signature.joins, self.fields.read)
        if not fitting:
            return
        given = {name: picked(fitting, own) for name, own in signature.fields.items()}
        # What was looked up belongs to the match that leads.
        shown = signature.lookup.shows if signature.lookup else ()
        looked_up = {name: fitting[0].fields.get(name) for name in shown}
        if self.merge({**given, **looked_up}) and note:
            self.fields.used.append(fitting[0].evidence)

    def merge(self, fields: Mapping[str, Value]) -> bool:
        """Adds what is not known yet; whether there was anything."""
        known = self.fields.read
        new = {name: v for name, v in fields.items() if v is not None and name not in known}
        known.update(new)
        return bool(new)

    def derive(self, derived: Mapping[str, Value | Expression]) -> None:
        read, found = self.fields.read, self.fields.derived
        for name, rule in derived.items():
            if name in found or name in read:
                continue
            if isinstance(rule, Expression):
                found[name] = rule.evaluate({**found, **read}, self._functions)
            else:
                found[name] = rule


class _Questions:
    """Answers what expressions ask of the incident (`functions.Incident`)."""

    def __init__(self, ground: Ground):
        self._seen: Final = ground.seen
        self._best: Final = ground.best
        self._followers: Final = ground.followers
        self._own: Final = sorted(ground.best.matches, key=_place)

    def count(self, *signatures: str) -> int:
        """Lines of these signatures, or of the finding itself."""
        if signatures:
            return self._seen.count(*signatures)
        return sum(match.line.repeat for match in self._own)

    def seen(self, *signatures: str) -> bool:
        return self._seen.count(*signatures) > 0

    def values(self, field: str) -> list[Value]:
        """All values of a field, of all cases of the leading signature, in order."""
        signature = self._best.signature
        matches = self._seen.matches(signature.id) if signature else []
        values = [match.fields.get(field) for match in matches]
        found: list[Value] = []
        for value in values:
            if value is not None and value not in found:
                found.append(value)
        return found

    def other(self, value: Value, field: str) -> Value:
        """The first value of a field that is not this one."""
        return next((each for each in self.values(field) if each != value), None)

    def least(self, wanted: str, by: str) -> Value:
        """A field of the match with the smallest `by`; unknown where all have the same."""
        found = [
            (float(key), match.fields.get(wanted))
            for match in self._own
            if isinstance(key := match.fields.get(by), int | float)
        ]
        if len({key for key, _ in found}) < 2:
            return None
        return min(found, key=lambda pair: pair[0])[1]

    def unheard(self, field: str, introduced: str) -> Value:
        """Values of a field that a signature has seen and the finding has not, in order; unknown
        where there are none, or where a line stands for several."""
        if any(match.line.repeat > 1 for match in self._own):
            return None
        heard = self.values(field)
        known = {match.fields.get(field) for match in self._seen.matches(introduced)}
        unheard: list[Value] = [*sorted(n for n in known if isinstance(n, int) and n not in heard)]
        return unheard or None

    def distinct(self, *fields: str) -> int:
        return len({tuple(str(match.fields.get(name)) for name in fields) for match in self._own})

    def first(self, field: str) -> Value:
        return picked(self._own, Field(field, "string"))

    def last(self, field: str) -> Value:
        return picked(self._own[::-1], Field(field, "string"))

    def span(self) -> Value:
        """Seconds from the first to the last line of the finding."""
        stamps = [match.line.stamp for match in self._own if match.line.stamp is not None]
        span = stamps[-1].since(stamps[0]) if len(stamps) > 1 else None
        if span is None:
            return None
        return span // 1000 if span % 1000 == 0 else span / 1000

    def incidents(self) -> int:
        """What rules found, without a line of its own, is one."""
        return max(1, self._seen.incidents(self._best.verdict))

    def explained(self) -> list[str]:
        """The verdicts that follow from this one, in the order of their table."""
        return list(dict.fromkeys(finding.verdict for finding in self._followers))


def _place(match: Match) -> tuple[str, int]:
    return match.source, match.line.number
