"""What the head should answer: every source's events in plain lists, and a writer for both.

Each event says whether it is `sure` to be readable: a head may forget a sample
that is older than its retention, and need not.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from enginewatch.model import STALE_NAN, Labels, Millis, is_stale
from enginewatch.store.core import Keep
from enginewatch.store.head import Head
from enginewatch.store.source import AppendResult

Round = list[tuple[Labels, float]]


class Scraper:
    """Writes to one source as a scrape loop does: it keeps refs for as long as the epoch lasts."""

    def __init__(self, head: Head, key: Hashable):
        self.source = head.source(key)
        self._refs: dict[Labels, int | None] = {}
        self._epoch = self.source.epoch

    def scrape(self, at: Millis, samples: Iterable[tuple[Labels, float]]) -> AppendResult:
        if self._epoch != self.source.epoch:
            self._epoch = self.source.epoch
            self._refs.clear()
        refs, values = [], []
        for labels, value in samples:
            if labels not in self._refs:
                self._refs[labels] = self.source.resolve(labels)
            ref = self._refs[labels]
            if ref is not None:
                refs.append(ref)
                values.append(value)
        return self.source.append(at, np.array(refs, np.int64), np.array(values, np.float64))


class Event(NamedTuple):
    at: Millis
    value: float
    sure: bool


@dataclass
class ReferenceSource:
    last: Millis | None = None
    removed: bool = False
    alive: set[Labels] = field(default_factory=set)
    events: dict[Labels, list[Event]] = field(default_factory=dict)


class ReferenceHead:
    def __init__(self, keep: Keep, step_tolerance: Millis):
        self.keep = keep
        self.tolerance = step_tolerance
        self.sources: dict[Hashable, ReferenceSource] = {}

    def source(self, key: Hashable) -> ReferenceSource:
        source = self.sources.setdefault(key, ReferenceSource())
        source.removed = False
        return source

    def append(self, key: Hashable, at: Millis, samples: Round) -> None:
        source = self.sources[key]
        if source.removed or not self._admit(source, at):
            return
        self._write(source, at, samples)
        self._age(source, at)
        for other in self.sources.values():
            if other.removed:
                self._age(other, at)

    def remove(self, key: Hashable, at: Millis | None) -> None:
        source = self.sources[key]
        if not source.removed and source.last is not None:
            if at is None or not self._admit(source, at):
                at = source.last + 1
            self._write(source, at, [])
        source.removed = True

    def reconfigure(self, keep: Keep) -> None:
        self.keep = keep
        for source in self.sources.values():
            for labels in [labels for labels in source.events if keep(labels.name) is None]:
                del source.events[labels]
                source.alive.discard(labels)
            if source.last is not None:
                self._age(source, source.last)

    def events(self) -> Iterator[tuple[Labels, list[Event]]]:
        """By series and time. Of a sample and an end at one time the sample counts."""
        merged: dict[Labels, dict[Millis, Event]] = {}
        for source in self.sources.values():
            for labels, events in source.events.items():
                kept = merged.setdefault(labels, {})
                for event in events:
                    before = kept.get(event.at)
                    if before is None or is_stale(before.value):
                        kept[event.at] = event
        for labels, by_time in merged.items():
            yield labels, sorted(by_time.values(), key=lambda event: event.at)

    def _admit(self, source: ReferenceSource, at: Millis) -> bool:
        if source.last is not None and at <= source.last:
            if source.last - at <= self.tolerance:
                return False
            self._step_back(source, at)
            for other in self.sources.values():
                if other.removed and other.last is not None and other.last >= at:
                    self._step_back(other, at)
                    self._write(other, at, [])
        source.last = at
        return True

    def _step_back(self, source: ReferenceSource, at: Millis) -> None:
        for labels, events in source.events.items():
            source.events[labels] = [event for event in events if event.at < at]
        rounds = [event.at for events in source.events.values() for event in events]
        source.last = max(rounds, default=None)
        source.alive = {
            labels
            for labels, events in source.events.items()
            if events and events[-1].at == source.last and not is_stale(events[-1].value)
        }

    def _write(self, source: ReferenceSource, at: Millis, samples: Round) -> None:
        source.last = at
        given: dict[Labels, float] = {}
        for labels, value in samples:
            if self.keep(labels.name) is not None:
                given.setdefault(labels, value)
        alive = {labels for labels, value in given.items() if not is_stale(value)}
        for labels in source.alive - alive:
            # The marker of a series whose last sample is forgotten need not be written.
            sure = bool(source.events[labels]) and source.events[labels][-1].sure
            source.events[labels].append(Event(at, STALE_NAN, sure))
        for labels in alive:
            source.events.setdefault(labels, []).append(Event(at, given[labels], True))
        source.alive = alive

    def _age(self, source: ReferenceSource, now: Millis) -> None:
        for labels, events in source.events.items():
            oldest = now - (self.keep(labels.name) or 0)
            source.events[labels] = [
                event if event.at > oldest else event._replace(sure=False) for event in events
            ]
