"""Log signatures as data: what a line says, what it means, and in which surroundings.

A signature finds a line. Its cases, tried in order, say what the line means where
it stands: the same text is a death in the middle of service and nothing at all
during a shutdown. A signature whose cases claim no verdict is a fact: it lends
its fields to the verdicts it feeds, and others can ask whether it was seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from enginewatch.evidence.expressions import Expression
from enginewatch.evidence.fields import Value
from enginewatch.evidence.patterns import Pattern, compile_set
from enginewatch.model import Millis

FACT: Final = ""
"""The verdict of a case that claims none."""

_REMEMBERED: Final = 4_096
"""Answers of the set whose signatures are looked up once."""


class Severity(StrEnum):
    """From worst to mildest, as in verdicts."""

    FATAL = "fatal"
    DEGRADED = "degraded"
    WARN = "warn"
    INFO = "info"

    @property
    def weight(self) -> int:
        """Larger is worse."""
        return -list(Severity).index(self)


class Confidence(StrEnum):
    DEFINITE = "definite"
    SUSPECT = "suspect"


class Phase(StrEnum):
    """What the program was doing when it printed the line; `unknown` until a line has told."""

    UNKNOWN = "unknown"
    STARTUP = "startup"
    RUNTIME = "runtime"
    SHUTDOWN = "shutdown"


class Pick(StrEnum):
    """Which match's value stands for a field that several matches have."""

    FIRST = "first"
    LAST = "last"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class Field:
    """A value read from the line: by a group of the signature's pattern, or by its own pattern."""

    name: str
    type: str
    pick: Pick = Pick.FIRST
    pattern: Pattern | None = None


@dataclass(frozen=True, slots=True)
class Near:
    """One of the signatures `seen` matched before or after this line.

    No farther than `within` where both lines have a time, and than `lines`; a limit
    that is None does not apply.
    """

    seen: frozenset[str]
    within: Millis | None = None
    lines: int | None = None


class Signs(NamedTuple):
    """What must be near on one side, all of it, and what must not, none of it."""

    wanted: tuple[Near, ...] = ()
    unwanted: tuple[Near, ...] = ()


NO_SIGNS: Final = Signs()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What a line means under conditions; all given ones must hold.

    `explains` and `explained_by` name verdicts or signatures beyond those of the
    table of verdicts; `rules_out` are verdicts that the same text would mean
    elsewhere. `derived` are constants, or expressions over the incident.
    """

    verdict: str = FACT
    severity: Severity = Severity.INFO
    confidence: Confidence = Confidence.DEFINITE
    phases: frozenset[Phase] = frozenset()
    emitters: tuple[str, ...] = ()
    before: Signs = NO_SIGNS
    after: Signs = NO_SIGNS
    where: Expression | None = None
    derived: Mapping[str, Value | Expression]
    explains: frozenset[str] = frozenset()
    explained_by: frozenset[str] = frozenset()
    rules_out: tuple[str, ...] = ()
    summary: str = ""
    advice: str = ""

    def fits(self, phase: Phase, emitter: str) -> bool:
        if self.phases and phase not in self.phases:
            return False
        return not self.emitters or any(_is_emitter(each, emitter) for each in self.emitters)


def _is_emitter(wanted: str, emitter: str) -> bool:
    """`Worker` means Worker_TP0 too; `unknown` a line that names no process."""
    return emitter.startswith(wanted) if wanted != "unknown" else not emitter


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A sample that each match gives: a field's value or a number, labelled by fields."""

    name: str
    value: str | float
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """A row of a table found by a field; its columns become fields with a prefix.

    Conditions can ask for all of them; those in `shows`, prefix included, are fields of
    the verdict.
    """

    by: str
    shows: tuple[str, ...]
    prefix: str
    rows: Mapping[str, Mapping[str, Value]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A piece of log, and what the whole set must make of it: a test that stands in the file.

    `verdict` is None where this signature must not match at all.
    """

    text: str
    verdict: str | None
    fields: Mapping[str, Value]
    line: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Signature:
    """One signature. `patterns` are alternatives: the wordings of different versions.

    `only` must hold of the fields, or the line is passed over. `enters` is the phase
    that begins with the line. `mutes` marks lines that quote what a user wrote, in
    which nothing may be found. `thin` is how often at most a line is read where a log
    is followed live: periodic lines can be most of it. `feeds` names verdicts that
    take the fields of this signature though it is not what they rest on, if the
    fields in `joins` agree. `lead_by` is the field whose largest value tells which of
    several matches leads.
    """

    id: str
    about: str
    patterns: tuple[Pattern, ...]
    fields: Mapping[str, Field]
    cases: tuple[Case, ...]
    series: tuple[Series, ...] = ()
    lookup: Lookup | None = None
    only: Expression | None = None
    enters: Phase | None = None
    mutes: bool = False
    thin: Millis = 0
    feeds: frozenset[str] = frozenset()
    joins: tuple[str, ...] = ()
    lead_by: str = ""
    source: tuple[str, ...] = ()
    examples: tuple[Example, ...] = ()
    file: str = ""
    line: int = 0

    def search(self, line: bytes) -> dict[str, str] | None:
        """The texts of the named groups where a pattern is found, or None."""
        for pattern in self.patterns:
            found = pattern.search(line)
            if found is not None:
                return found
        return None


class SignatureSet:
    """All signatures, and one automaton that tells in a single pass which are in a line."""

    def __init__(self, signatures: Sequence[Signature]):
        self.signatures: Final = tuple(signatures)
        self.by_id: Final = {signature.id: signature for signature in self.signatures}
        patterns = [(s, pattern) for s in self.signatures for pattern in s.patterns]
        self._order: Final = {signature.id: n for n, signature in enumerate(self.signatures)}
        self._owners: Final = tuple(signature for signature, _ in patterns)
        self.may_match: Final = compile_set([pattern for _, pattern in patterns])
        self._known: dict[tuple[int, ...], tuple[Signature, ...]] = {}

    def __len__(self) -> int:
        return len(self.signatures)

    def __iter__(self) -> Iterator[Signature]:
        return iter(self.signatures)

    def owners(self, found: Sequence[int]) -> tuple[Signature, ...]:
        """The signatures of an answer of `may_match`, in the order of their files."""
        key = tuple(found)
        owners = self._known.get(key)
        if owners is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            distinct = {self._owners[place].id: self._owners[place] for place in key}
            owners = tuple(sorted(distinct.values(), key=lambda one: self._order[one.id]))
            self._known[key] = owners
        return owners
