"""Reads a log line by line and says what each line means where it stands.

What a line means can depend on lines that come later (`after`); such a match waits,
with a bound on how many do, and is given once the later line has come, or the
time in which it could have has passed. Memory does not grow with the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from enginewatch.evidence.fields import COUNT, TYPES, Value
from enginewatch.evidence.functions import PURE
from enginewatch.evidence.lines import LONGEST, Line, clean, decode, peel, unfold
from enginewatch.evidence.redact import redact
from enginewatch.evidence.signatures import Case, Near, Phase, Signature, SignatureSet
from enginewatch.evidence.times import Stamp, TimeReader
from enginewatch.evidence.verdict import Evidence
from enginewatch.model import Labels, Millis, Sample

MOST_WAITING: Final = 1_000
"""Matches that wait for later lines; beyond it the oldest is decided by what has been seen."""
LONGEST_WAIT: Final[Millis] = 600_000
"""How long a match with `after: any` waits in a log that is followed and has no end."""
_LINES_WITHOUT_TIME: Final = 200
"""How near `within` is where a line has no time to measure by."""
_LINES_BETWEEN_CHECKS: Final = 64
_TIME_BETWEEN_CHECKS: Final[Millis] = 1_000
_TEXT_SHOWN: Final = 2_000

_ESCAPE: Final = b"\x1b"
_NONE: Final[Sequence[Match]] = ()


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
class _Waiting:
    """A match whose meaning is open: the cases left, and which of their later signs have come."""

    signature: Signature
    line: Line
    fields: Mapping[str, Value]
    phase: Phase
    at: Millis | None
    cases: tuple[Case, ...]
    came: set[Near] = field(default_factory=set)

    def later(self) -> Iterator[Near]:
        for case in self.cases:
            yield from case.after.wanted
            yield from case.after.unwanted

    def is_open(self) -> bool:
        """Whether later lines can still change which case is the first to hold."""
        for case in self.cases:
            wanted, unwanted = case.after
            if self.came.isdisjoint(unwanted):
                # The first case that can still hold: settled if nothing later matters to it.
                return bool(unwanted) or not self.came.issuperset(wanted)
        return False

    def decided(self, source: str) -> Match:
        case = None
        for each in self.cases:
            wanted, unwanted = each.after
            if self.came.issuperset(wanted) and self.came.isdisjoint(unwanted):
                case = each
                break
        return Match(
            signature=self.signature,
            case=case,
            fields=self.fields,
            source=source,
            line=self.line,
            at=self.at,
            phase=self.phase,
        )


class LogReader:
    """One source's lines in their order.

    `year` completes dates that have none. `cut` counts lines of which only the
    first `lines.LONGEST` bytes were looked at.
    """

    def __init__(self, signatures: SignatureSet, source: str = "", *, year: int = 2000):
        self._signatures: Final = signatures
        self._may_match: Final = signatures.may_match
        self._times: Final = TimeReader(year)
        self._source: Final = source
        self._stamp: Stamp | None = None
        self._seen: Final[dict[str, tuple[int, Stamp | None]]] = {}
        self._waiting: list[_Waiting] = []
        self._checked: tuple[int, Millis] = (0, 0)
        self._read_at: Final[dict[str, Millis]] = {}
        self._raw: bytes = b""
        self.number = 0
        self.cut = 0
        self.phase = Phase.UNKNOWN

    def skip_to(self, number: int) -> None:
        """The next line fed has this number: lines between were no log lines."""
        self.number = number - 1

    def feed(self, line: bytes | str, at: Millis | None = None) -> Sequence[Match]:
        """The matches that this line makes certain: its own, and older ones that waited for it.

        `line` is without its end or with it; `at` is when it was read, for a source
        that is being followed: then periodic lines are read now and then only.
        """
        raw = line.encode("utf-8", "replace") if isinstance(line, str) else line
        self.number += 1
        self._raw = raw
        if len(raw) > LONGEST:
            raw = raw[:LONGEST]
            self.cut += 1
        if raw[:1] == b"{" or _ESCAPE in raw:
            raw = clean(decode(raw)).encode()
        found = self._may_match(raw)
        if found:
            signatures = self._signatures.owners(found)
            if at is None or not self._is_thinned(signatures, at):
                return [*self._read(raw, signatures, at), *self._over(at)]
        return self._over(at) if self._waiting else _NONE

    def finish(self) -> list[Match]:
        """The input has ended: what still waits is decided by what was seen."""
        waiting, self._waiting = self._waiting, []
        return [each.decided(self._source) for each in waiting]

    def tick(self, now: Millis) -> Sequence[Match]:
        """Time has passed without a line: what can't change any more is given."""
        return self._over(now)

    @property
    def last_stamp(self) -> Stamp | None:
        """The time of the newest line, or of the nearest before it that has one."""
        return self._times.read(clean(decode(self._raw))) or self._stamp

    def _is_thinned(self, signatures: Sequence[Signature], at: Millis) -> bool:
        """Whether all of these may be passed over, because lines of theirs were read just now."""
        return all(
            each.thin and at - self._read_at.get(each.id, at - each.thin) < each.thin
            for each in signatures
        )

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
            yield from self._line(line, signatures, at)

    def _line(
        self, line: Line, signatures: Sequence[Signature], at: Millis | None
    ) -> Iterator[Match]:
        raw = line.text.encode()
        opened: list[_Waiting] = []
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
            if at is not None and signature.thin:
                self._read_at[signature.id] = at
            opened.append(_Waiting(signature, line, fields, self.phase, at, cases))
        if self._waiting and opened:
            yield from self._arrived({each.signature.id for each in opened}, line)
        for each in opened:
            if each.is_open():
                self._waiting.append(each)
            else:
                yield each.decided(self._source)
        if len(self._waiting) > MOST_WAITING:
            yield self._waiting.pop(0).decided(self._source)

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
        for name in near.seen:
            if name in self._seen:
                number, stamp = self._seen[name]
                if _is_within(near, line.number - number, _span(stamp, line.stamp)):
                    return True
        return False

    def _arrived(self, names: set[str], line: Line) -> Iterator[Match]:
        """Tell those that wait which signatures this line matched."""
        left: list[_Waiting] = []
        for each in self._waiting:
            for near in each.later():
                lines = line.number - each.line.number
                if names & near.seen and _is_within(
                    near, lines, _span(each.line.stamp, line.stamp)
                ):
                    each.came.add(near)
            if each.is_open():
                left.append(each)
            else:
                yield each.decided(self._source)
        self._waiting = left

    def _over(self, at: Millis | None) -> Sequence[Match]:
        """Those that have waited for as long as any of their cases asks; looked at now and then."""
        lines, when = self._checked
        if self.number - lines < _LINES_BETWEEN_CHECKS and (
            at is None or at - when < _TIME_BETWEEN_CHECKS
        ):
            return _NONE
        self._checked = (self.number, when if at is None else at)
        over = [each for each in self._waiting if self._is_over(each, at)]
        if not over:
            return _NONE
        self._waiting = [each for each in self._waiting if each not in over]
        return [each.decided(self._source) for each in over]

    def _is_over(self, waiting: _Waiting, at: Millis | None) -> bool:
        limits = list(waiting.later())
        lines = self.number - waiting.line.number
        if all(near.lines is not None and lines > near.lines for near in limits):
            return True
        longest = max((near.within or LONGEST_WAIT for near in limits), default=0)
        if at is not None and waiting.at is not None:
            return at - waiting.at > longest
        # Input that is read in one go has an end to wait for, where `any` is asked.
        if any(near.within is None for near in limits):
            return False
        span = _span(waiting.line.stamp, self._stamp)
        return span is not None and span > longest


def _span(earlier: Stamp | None, later: Stamp | None) -> Millis | None:
    return later.since(earlier) if later is not None else None


def _is_within(near: Near, lines: int, span: Millis | None) -> bool:
    if near.lines is not None and lines > near.lines:
        return False
    if near.within is None:
        return True
    if span is None:
        return lines <= _LINES_WITHOUT_TIME
    return 0 <= span <= near.within


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
