"""The values that travel through the pipeline: labels, samples, targets, matchers.

Everything here is immutable and does no I/O. Times are integer Unix
milliseconds (`Millis`) throughout the core, as in Prometheus: a window's edge
must compare exactly, which binary seconds do not. Seconds as floats exist only
at the edges (HTTP, files, humans).
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar, overload

import re2

Millis = int
"""A point in time, or a span, in integer milliseconds. Points count from the Unix epoch."""

T = TypeVar("T")

METRIC_NAME: Final = "__name__"

STALE_NAN: Final[float] = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))[0]
"""Prometheus' staleness marker (`model/value/value.go`): a NaN told apart by its bits alone."""

STALE_BITS: Final = 0x7FF0000000000002


def is_stale(value: float) -> bool:
    """Whether `value` is the staleness marker, rather than an ordinary NaN."""
    return bool(struct.unpack("<Q", struct.pack("<d", value))[0] == STALE_BITS)


class Labels(Mapping[str, str]):
    """An immutable label set; the metric name, if any, is the label `__name__`.

    Equal sets are equal and hash alike whatever order they were given in. As in
    Prometheus, a label with an empty value is the same as no label.

    Tens of thousands of these live as long as the daemon, so one costs a tuple of
    its values: where each name's value stands is shared by all sets of those names.

    >>> Labels(b="2", a="1", c="")
    {a="1", b="2"}
    """

    __slots__ = ("_hash", "_places", "_values")

    def __init__(self, source: Mapping[str, str] | Iterable[tuple[str, str]] = (), /, **more: str):
        given = dict(source)
        if more:
            given.update(more)
        names = tuple(sorted([name for name, value in given.items() if value]))
        self._places: Final[dict[str, int]] = _places_of(names)
        self._values: Final[tuple[str, ...]] = tuple([given[name] for name in names])
        self._hash: Final[int] = hash((names, self._values))

    @property
    def name(self) -> str:
        """The metric name, or `""`."""
        return self.get(METRIC_NAME, "")

    def __getitem__(self, label: str) -> str:
        return self._values[self._places[label]]

    @overload
    def get(self, label: str, /) -> str | None: ...
    @overload
    def get(self, label: str, default: str | T, /) -> str | T: ...
    def get(self, label: str, default: object = None, /) -> object:
        place = self._places.get(label)
        return default if place is None else self._values[place]

    def __contains__(self, label: object) -> bool:
        return label in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Labels):
            return (
                self._hash == other._hash
                and self._values == other._values
                and (self._places is other._places or self._places == other._places)
            )
        return NotImplemented

    def __lt__(self, other: Labels) -> bool:
        if self._places is other._places:
            return self._values < other._values
        return tuple(self._pairs()) < tuple(other._pairs())

    def __reduce__(self) -> tuple[type[Labels], tuple[dict[str, str]]]:
        # Hashes of strings differ between processes; a copy computes its own.
        return Labels, (dict(self._pairs()),)

    def _pairs(self) -> Iterator[tuple[str, str]]:
        return zip(self._places, self._values, strict=True)

    def plain(self) -> dict[str, str]:
        """As `dict` makes it, in a tenth of the time."""
        return dict(zip(self._places, self._values, strict=True))

    def values_of(self, names: Iterable[str]) -> tuple[str, ...]:
        """The values of these labels, in the order of the names; `""` for one that is absent."""
        places, values = self._places, self._values
        return tuple([values[places[name]] if name in places else "" for name in names])

    def with_(self, /, **changes: str) -> Labels:
        """A copy with labels set, or removed where the new value is empty."""
        return Labels(self._pairs(), **changes)

    def without(self, *names: str) -> Labels:
        return Labels([pair for pair in self._pairs() if pair[0] not in names])

    def only(self, names: Iterable[str]) -> Labels:
        return Labels([(k, self._values[self._places[k]]) for k in names if k in self._places])

    def interned(self) -> Labels:
        """An equal set whose strings are shared with all interned sets: what a store keeps."""
        copy = Labels.__new__(Labels)
        # Past `__init__`: the names are sorted and their places known.
        object.__setattr__(copy, "_places", self._places)
        object.__setattr__(copy, "_values", tuple([sys.intern(str(v)) for v in self._values]))
        object.__setattr__(copy, "_hash", self._hash)
        return copy

    def __repr__(self) -> str:
        """The series as PromQL writes it: `up{instance="a:1"}`."""
        inner = ", ".join(f"{k}={quote(v)}" for k, v in self._pairs() if k != METRIC_NAME)
        return f"{self.name}{{{inner}}}" if inner or not self.name else self.name


_PLACES: Final[dict[tuple[str, ...], dict[str, int]]] = {}
_PLACES_LIMIT: Final = 10_000


def _places_of(names: tuple[str, ...]) -> dict[str, int]:
    """Where each of these sorted names' value stands: one dictionary for all sets that have them.

    Names come from scraped pages, so the table is bounded. Forgetting it costs
    sharing, not truth: equality falls back on comparing the dictionaries.
    """
    places = _PLACES.get(names)
    if places is None:
        if len(_PLACES) >= _PLACES_LIMIT:
            _PLACES.clear()
        places = _PLACES[names] = {sys.intern(str(name)): i for i, name in enumerate(names)}
    return places


def quote(text: str) -> str:
    """`text` as a double-quoted PromQL or exposition string."""
    escaped = text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'"{escaped}"'


EMPTY_LABELS: Final = Labels()


class Sample(NamedTuple):
    """One measured value. `at` is None when the time of the scrape is meant."""

    labels: Labels
    value: float
    at: Millis | None = None


class MatchOp(StrEnum):
    EQUAL = "="
    NOT_EQUAL = "!="
    REGEX = "=~"
    NOT_REGEX = "!~"


@dataclass(frozen=True, slots=True)
class Matcher:
    """A label matcher, `name op value`. Regular expressions are RE2 and anchored at both ends.

    Raises ValueError when a regular expression is not valid RE2.
    """

    name: str
    op: MatchOp
    value: str
    _pattern: Any = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.op in (MatchOp.REGEX, MatchOp.NOT_REGEX):
            pattern = compile_re2(self.value, dot_matches_newline=True)
            object.__setattr__(self, "_pattern", pattern)

    def matches(self, value: str) -> bool:
        """Whether a label of this value (`""` when the label is absent) is accepted."""
        if self.op is MatchOp.EQUAL:
            return value == self.value
        if self.op is MatchOp.NOT_EQUAL:
            return value != self.value
        found = self._pattern.fullmatch(value) is not None
        return found if self.op is MatchOp.REGEX else not found

    def __str__(self) -> str:
        return f"{self.name}{self.op}{quote(self.value)}"


def compile_re2(pattern: str, *, dot_matches_newline: bool = False) -> Any:
    """Compile an RE2 pattern: linear time on hostile input, and the dialect PromQL means.

    PromQL's patterns are used with `dot_matches_newline` and `fullmatch`. Raises
    ValueError with RE2's own reason.
    """
    options = re2.Options()
    options.log_errors = False
    options.dot_nl = dot_matches_newline
    try:
        return re2.compile(pattern, options)
    except re2.error as failure:
        reason = failure.args[0] if failure.args else failure
        if isinstance(reason, bytes):
            reason = reason.decode("utf-8", "replace")
        raise ValueError(f"not a valid RE2 regular expression: {reason}") from None


def matches_all(labels: Mapping[str, str], matchers: Iterable[Matcher]) -> bool:
    for matcher in matchers:  # noqa: SIM110 - all() of a generator takes twice as long
        if not matcher.matches(labels.get(matcher.name, "")):
            return False
    return True


class MetricType(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"
    UNKNOWN = "unknown"


class Metadata(NamedTuple):
    """What a page says about a metric family in its TYPE, HELP and UNIT lines."""

    type: MetricType
    help: str
    unit: str


class ScrapeFailure(StrEnum):
    """Why a scrape brought nothing: the label `reason` of `enginewatch_scrape_error`.

    The first three mean that nobody answered as an engine would; the others, that
    somebody answered with something that can't be read.
    """

    CONNECT = "connect"
    TIMEOUT = "timeout"
    HTTP_STATUS = "http_status"
    REDIRECT = "redirect"
    FORMAT = "format"
    PARSE = "parse"
    TOO_LARGE = "too_large"
    CONFIGURATION = "configuration"


@dataclass(frozen=True, slots=True)
class Target:
    """One endpoint to scrape.

    `labels` always hold `job` and `instance`, and `deployment`, which is what a
    page is about (the job's name where nothing else was configured). `url` never
    carries credentials.
    """

    url: str
    labels: Labels

    @property
    def instance(self) -> str:
        return self.labels["instance"]

    @property
    def job(self) -> str:
        return self.labels["job"]


class AlertState(StrEnum):
    PENDING = "pending"
    FIRING = "firing"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert as it stands: what the API shows and what receivers are told.

    `active_at` is when its expression first held, `fired_at` when it had held for
    the rule's `for`, `resolved_at` when it stopped. `unknown` marks an alert kept
    firing because its inputs vanished: absence never resolves.
    """

    labels: Labels
    annotations: Mapping[str, str]
    value: float
    active_at: Millis
    fired_at: Millis | None = None
    resolved_at: Millis | None = None
    unknown: bool = False

    @property
    def state(self) -> AlertState:
        if self.resolved_at is not None:
            return AlertState.RESOLVED
        return AlertState.PENDING if self.fired_at is None else AlertState.FIRING

    @property
    def name(self) -> str:
        return self.labels.get("alertname", "")

    @property
    def fingerprint(self) -> str:
        """16 hex digits that identify the labels: the same as Alertmanager's for the same alert."""
        return f"{fingerprint(self.labels):016x}"


def fingerprint(labels: Labels) -> int:
    """64-bit FNV-1a over the sorted labels, as `labels.go` in prometheus/common computes it."""
    digest = 0xCBF29CE484222325
    for name, value in labels.items():
        for byte in b"%b\xff%b\xff" % (name.encode(), value.encode()):
            digest = ((digest ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return digest


def freeze(mapping: Mapping[str, str]) -> Mapping[str, str]:
    """A read-only view for annotations and other small string maps kept in frozen values."""
    return MappingProxyType(dict(mapping))
