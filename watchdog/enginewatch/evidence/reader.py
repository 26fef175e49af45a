"""Reads a log line by line and says what each line means where it stands.

What a line means can depend on lines that come later (`after`); such a match waits,
with a bound on how many do, and is given once the later line has come, or the
time in which it could have has passed. Memory does not grow with the log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from enginewatch.evidence.fields import COUNT, TYPES, Value
from enginewatch.evidence.functions import PURE
from enginewatch.evidence.lines import LONGEST, Line, clean, decode, peel, unfold
from enginewatch.evidence.redact import redact
from enginewatch.evidence.signatures import Case, Near, Phase, Signature, SignatureSet
from enginewatch.evidence.times import SecondReader, Stamp, TimeReader
from enginewatch.evidence.verdict import Evidence
from enginewatch.evidence.waiting import Open, WaitingRoom, is_within, span
from enginewatch.model import Labels, Millis, Sample

MOST_A_SECOND: Final = 100
"""Lines of one signature that are read in a second; the rest of a storm is counted."""
_SECOND: Final[Millis] = 1_000
_MOST_CLOSED: Final = 4_096
"""Sets of signatures whose storms are cut short; a hostile log can be made to have more."""
_TEXT_SHOWN: Final = 2_000
_ESCAPE: Final = b"\x1b"


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A signature found a line, and this case of it says what the line means.

    `case` is None where no case fits: the line was seen, and means nothing here.
    `at` is when the line was fed, if the caller said.
    """

    signature: Signature
    case: Case | None
    fields: Mapping[str, Value]
    source: str
    line: Line
    at: Millis | None = None
    phase: Phase = Phase.UNKNOWN

    @property
    def verdict(self) -> str:
        return self.case.verdict if self.case else ""

    @property
    def evidence(self) -> Evidence:
        return Evidence(self.source, self.line.number, redact(self.line.text[:_TEXT_SHOWN]))

    def samples(self) -> Iterator[Sample]:
        """The samples that the signature makes of the line, without a time."""
        for series in self.signature.series:
            value = self.fields.get(series.value) if isinstance(series.value, str) else series.value
            if isinstance(value, int | float):
                labels = {name: self.fields.get(of) for name, of in series.labels.items()}
                given = {name: str(text) for name, text in labels.items() if text is not None}
                yield Sample(Labels(given, __name__=series.name), float(value))


@dataclass(slots=True)
class _Pace:
    """How many lines of a signature came since a moment."""

    since: Millis
    count: int = 0


@dataclass(slots=True)
class _Closed:
    """Of an answer of the set: no line is read from `since` until `until`; `count` were not."""

    ids: tuple[str, ...]
    since: Millis = 0
    until: Millis = 0
    count: int = 0


class LogReader:
    """One source's lines in their order.

    `year` completes dates that have none. `cut` counts lines of which only the
    first `lines.LONGEST` bytes were looked at; `passed` counts lines that were not
    read because many like them were in the same second, by signature, and `passed_lines`
    in all.
    """

    def __init__(self, signatures: SignatureSet, source: str = "", *, year: int = 2000):
        self._signatures: Final = signatures
        self._may_match: Final = signatures.may_match
        self._times: Final = TimeReader(year)
        self._source: Final = source
        self._stamp: Stamp | None = None
        self._seen: Final[dict[str, tuple[int, Stamp | None]]] = {}
        self._room: Final = WaitingRoom()
        self._pace: Final[dict[str, _Pace]] = {}
        self._clock: Final = SecondReader(year)
        self._passed: tuple[int, bytes] | None = None
        self._newest: bytes = b""
        self.number = 0
        self.cut = 0
        self._closed: Final[dict[tuple[int, ...], _Closed]] = {}
        self.phase = Phase.UNKNOWN

    def skip_to(self, number: int) -> None:
        """The next line fed has this number: lines between were no log lines."""
        self.number = number - 1

    def feed(self, line: bytes | str, at: Millis | None = None) -> Sequence[Match]:
        """The matches that this line makes certain: its own, and older ones that waited for it.

        `line` is without its end or with it. `at` is when it came, for a log that is being
        followed: then periodic lines are read now and then. Of a storm a part is read, in a
        log that is read in one go by the seconds that its lines tell: a line without is read.
        """
        raw = line.encode("utf-8", "replace") if isinstance(line, str) else line
        self.number += 1
        if len(raw) > LONGEST:
            raw = raw[:LONGEST]
            self.cut += 1
        if raw[:1] == b"{" or _ESCAPE in raw:
            raw = clean(decode(raw)).encode()
        self._newest = raw
        found = self._may_match(raw)
        if found and self._is_due(key := tuple(found), raw, at):
            return [*self._read(raw, self._signatures.owners(key), at), *self._over(at)]
        return self._over(at) if self._room.is_due(self.number, at) else ()

    @property
    def passed_lines(self) -> int:
        return sum(each.count for each in self._closed.values())

    @property
    def passed(self) -> Counter[str]:
        told: Counter[str] = Counter()
        for each in self._closed.values():
            told.update(dict.fromkeys(each.ids, each.count))
        return told

    def finish(self) -> list[Match]:
        """The input has ended: what still waits is decided by what was seen."""
        # Where a log ends in a storm, how it ends is told by the storm's last line.
        last, self._passed = self._passed, None
        matches: list[Match] = []
        if last is not None and last[0] == self.number:
            found = self._may_match(last[1]) or ()
            matches.extend(self._read(last[1], self._signatures.owners(found), None))
        return [*matches, *(self._decided(each) for each in self._room.drain())]

    def tick(self, now: Millis) -> Sequence[Match]:
        """Time has passed without a line: what can't change any more is given."""
        return self._over(now)

    @property
    def last_stamp(self) -> Stamp | None:
        """The time of the newest line, or of the nearest before it that has one."""
        return self._times.read(clean(decode(self._newest))) or self._stamp

    def _is_due(self, found: tuple[int, ...], raw: bytes, at: Millis | None) -> bool:
        """Whether one of the signatures found may still be read; if none may, it is counted."""
        now = self._clock.read(raw) if at is None else at
        if now is None:
            return True
        closed = self._closed.get(found)
        if closed is None or not closed.since <= now < closed.until:
            signatures = self._signatures.owners(found)
            until = [self._closed_until(each, now, live=at is not None) for each in signatures]
            if None in until:
                return True
            if closed is None:
                if len(self._closed) >= _MOST_CLOSED:
                    return True
                closed = _Closed(tuple(each.id for each in signatures))
                self._closed[found] = closed
            closed.since, closed.until = now, min(each for each in until if each is not None)
        closed.count += 1
        self._passed = (self.number, raw)
        return False

    def _closed_until(self, signature: Signature, now: Millis, *, live: bool) -> Millis | None:
        """Count a line; where enough like it were read, when the next is, else None."""
        thin = signature.thin if live else 0
        pace = self._pace.get(signature.id)
        if pace is None:
            pace = self._pace[signature.id] = _Pace(now)
        if not 0 <= now - pace.since < (thin or _SECOND):
            pace.since, pace.count = now, 0
        pace.count += 1
        if pace.count <= (1 if thin else MOST_A_SECOND):
            return None
        return pace.since + (thin or _SECOND)

    def _read(
        self, raw: bytes, signatures: Sequence[Signature], at: Millis | None
    ) -> Iterator[Match]:
        if any(each.mutes for each in signatures):
            return
        for part in unfold(decode(raw).rstrip("\r\n")):
            text = clean(part)
            stamp = self._times.read(text)
            if stamp is not None:
                self._stamp = stamp
            printed, emitter, repeat = peel(text)
            line = Line(self.number, printed, self._stamp, emitter, repeat)
            opened = list(self._opened(line, signatures, at))
            for each in self._room.arrived({each.signature.id for each in opened}, line):
                yield self._decided(each)
            for each in opened:
                leaving = self._room.add(each) if each.is_open() else each
                if leaving is not None:
                    yield self._decided(leaving)

    def _opened(
        self, line: Line, signatures: Sequence[Signature], at: Millis | None
    ) -> Iterator[Open]:
        raw = line.text.encode()
        for signature in signatures:
            groups = signature.search(raw)
            if groups is None:
                continue
            fields = _fields(signature, groups, raw)
            if signature.only is not None and not signature.only.evaluate(fields, PURE):
                continue
            # The line that begins a phase belongs to it.
            if signature.enters is not None:
                self.phase = signature.enters
            cases = tuple(self._possible(signature, fields, line))
            self._seen[signature.id] = (line.number, line.stamp)
            yield Open(signature, line, fields, self.phase, at, cases)

    def _possible(
        self, signature: Signature, fields: Mapping[str, Value], line: Line
    ) -> Iterator[Case]:
        """The cases that all that came before this line leaves possible."""
        for case in signature.cases:
            if not case.fits(self.phase, line.emitter):
                continue
            if case.where is not None and not case.where.evaluate(fields, PURE):
                continue
            wanted, unwanted = case.before
            if all(self._was(near, line) for near in wanted) and not any(
                self._was(near, line) for near in unwanted
            ):
                yield case

    def _was(self, near: Near, line: Line) -> bool:
        return any(
            is_within(near, line.number - number, span(stamp, line.stamp))
            for number, stamp in (self._seen[name] for name in near.seen if name in self._seen)
        )

    def _over(self, at: Millis | None) -> Sequence[Match]:
        return [self._decided(each) for each in self._room.over(self.number, self._stamp, at)]

    def _decided(self, match: Open) -> Match:
        return Match(
            signature=match.signature,
            case=match.case(),
            fields=match.fields,
            source=self._source,
            line=match.line,
            at=match.at,
            phase=match.phase,
        )


def _fields(signature: Signature, groups: Mapping[str, str], raw: bytes) -> dict[str, Value]:
    """The line's fields by name, typed; a text that is not of its type is left out."""
    found: dict[str, Value] = {}
    for one in signature.fields.values():
        text = groups.get(one.name)
        if text is None and one.pattern is not None:
            if one.type == COUNT:
                found[one.name] = one.pattern.count(raw)
                continue
            text = one.pattern.first_group(raw)
        if text is None:
            continue
        try:
            found[one.name] = TYPES[one.type](text)
        except ValueError:
            continue
    table = signature.lookup
    if table is not None and table.by in found:
        row = table.rows.get(str(found[table.by]), {})
        found |= {f"{table.prefix}{name}": value for name, value in row.items()}
    return found
