"""A store as one round of rules sees it: what was read stays read until it is written to.

Rules ask for the same series again and again, the canonical ones of an engine most.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final, NamedTuple

from enginewatch.model import METRIC_NAME, Labels, Matcher, MatchOp, Metadata, Millis
from enginewatch.store.base import FloatArray, Instant, IntArray, Window
from enginewatch.store.head import Head
from enginewatch.store.source import AppendResult, Source

_NOTHING: Final = AppendResult()
_MOST_CELLS: Final = 1 << 16
"""Of a window that is remembered: a larger one costs more memory than it spares time."""

_Read = tuple[tuple[Matcher, ...], Millis, Millis]


class _Reads(NamedTuple):
    """What has been read of one metric in this round."""

    instants: dict[_Read, Instant]
    windows: dict[_Read, Window]


class RoundStore:
    """The store of the rules of one judge, read and written by one thread.

    Between `begin` and the next, a metric has the newest samples that it had when it
    was first asked for, but for what is written here: scrapes that come in meanwhile
    are seen by the next round, so that all rules of a round judge the same state.
    """

    def __init__(self, head: Head):
        self._head: Final = head
        self._read: dict[str, _Reads] = {}
        self._writers: dict[Hashable, _Writer] = {}

    def begin(self) -> None:
        """A new round: everything is read afresh."""
        self._read.clear()

    def forget(self, name: str) -> None:
        """This metric has been written to."""
        self._read.pop(name, None)

    def source(self, key: Hashable) -> _Writer:
        """As the head's; what it writes is read afresh. The same object for the same key."""
        writer = self._writers.get(key)
        source = self._head.source(key)
        if writer is None or writer.source is not source:
            writer = self._writers[key] = _Writer(self, key, source)
        return writer

    def drop(self, key: Hashable) -> None:
        self._writers.pop(key, None)

    def instant(self, matchers: Sequence[Matcher], at: Millis, lookback: Millis) -> Instant:
        reads = self._reads_of(matchers)
        key = (tuple(matchers), at, lookback)
        found = reads.instants.get(key)
        if found is None:
            found = reads.instants[key] = self._head.instant(matchers, at, lookback)
        return found

    def window(self, matchers: Sequence[Matcher], after: Millis, upto: Millis) -> Window:
        reads = self._reads_of(matchers)
        key = (tuple(matchers), after, upto)
        found = reads.windows.get(key)
        if found is None:
            found = self._head.window(matchers, after, upto)
            if found.values.size <= _MOST_CELLS:
                reads.windows[key] = found
        return found

    def _reads_of(self, matchers: Sequence[Matcher]) -> _Reads:
        """What is remembered of a metric; of no single one, nothing is."""
        for each in matchers:
            if each.name == METRIC_NAME and each.op is MatchOp.EQUAL:
                return self._read.setdefault(each.value, _Reads({}, {}))
        return _Reads({}, {})

    def series(
        self, matchers: Sequence[Matcher], after: Millis | None = None, upto: Millis | None = None
    ) -> Sequence[Labels]:
        return self._head.series(matchers, after, upto)

    def exists(self, name: str) -> bool:
        return self._head.exists(name)

    @property
    def names_changed(self) -> int:
        return self._head.names_changed

    def metadata(self) -> dict[str, Metadata]:
        return self._head.metadata()


class _Writer:
    """A source of the head whose metrics are read afresh after each of its rounds."""

    def __init__(self, store: RoundStore, key: Hashable, source: Source):
        self._store: Final = store
        self._key: Final = key
        self._names: Final[set[str]] = set()
        self.source: Final = source

    @property
    def epoch(self) -> int:
        return self.source.epoch

    def resolve(self, labels: Labels) -> int | None:
        self._names.add(labels.name)
        return self.source.resolve(labels)

    def append(self, at: Millis, refs: IntArray, values: FloatArray) -> AppendResult:
        if not self._names and not len(refs):
            return _NOTHING  # most rules of most rounds: no series of theirs could end
        result = self.source.append(at, refs, values)
        self._told()
        return result

    def remove(self, at: Millis | None = None) -> None:
        self.source.remove(at)
        self._told()
        self._store.drop(self._key)

    def _told(self) -> None:
        for name in self._names:
            self._store.forget(name)
