"""Any schedule of rounds, removals, steps of the clock and reloads, against the reference."""

from __future__ import annotations

import struct
from collections.abc import Callable

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.store.reference import ReferenceHead, Scraper

from enginewatch.model import METRIC_NAME, STALE_NAN, Labels, Matcher, MatchOp, Millis, is_stale
from enginewatch.store.base import Layout
from enginewatch.store.head import Head

NAMES = ("a", "b", "c")
TOLERANCE = 50
SOURCES = ("one", "two", "three")
SERIES = [Labels({METRIC_NAME: name, "x": str(x)}) for name in NAMES for x in range(3)]
SELECTORS: list[tuple[Matcher, ...]] = [
    *((Matcher(METRIC_NAME, MatchOp.EQUAL, name),) for name in NAMES),
    (Matcher(METRIC_NAME, MatchOp.REGEX, "a|b"), Matcher("x", MatchOp.NOT_EQUAL, "1")),
]

values = st.sampled_from([1.0, 2.5, -0.0, float("inf"), float("nan"), STALE_NAN])
rounds = st.lists(st.tuples(st.sampled_from(SERIES), values), max_size=12)
spans = st.sampled_from([1, 20, 100, 400, 1500]) | st.integers(1, 1500)
keeps = st.fixed_dictionaries(
    {name: st.sampled_from([None, 20, 100, 400, 400, 1500]) for name in NAMES}
)


def bits(value: float) -> bytes:
    return struct.pack("<d", value)


class HeadAgainstReference(RuleBasedStateMachine):
    @initialize(keep=keeps)
    def start(self, keep: dict[str, Millis | None]) -> None:
        self.now = 1_000_000
        self.head = Head(keep=keep.get, step_tolerance=TOLERANCE)
        self.reference = ReferenceHead(keep.get, TOLERANCE)
        self.scrapers = {key: Scraper(self.head, key) for key in SOURCES}
        for key in SOURCES:
            self.reference.source(key)
        self.layouts: dict[tuple[Matcher, ...], Layout] = {}
        self.written: dict[tuple[Labels, Millis], float] = {}

    def write(self, key: str, at: Millis, samples: list[tuple[Labels, float]]) -> None:
        # Sources that write a series at one time say the same, whichever comes first.
        agreed = [(labels, self.written.get((labels, at), value)) for labels, value in samples]
        for labels, value in agreed:
            self.written.setdefault((labels, at), value)
        self.scrapers[key].scrape(at, agreed)
        self.reference.append(key, at, agreed)

    @rule(key=st.sampled_from(SOURCES), samples=rounds, wait=st.integers(1, 30))
    def append(self, key: str, samples: list[tuple[Labels, float]], wait: int) -> None:
        self.now += wait
        self.write(key, self.now, samples)

    @rule(
        key=st.sampled_from(SOURCES),
        samples=rounds,
        wait=st.integers(1, 30),
        times=st.integers(2, 40),
    )
    def append_many(
        self, key: str, samples: list[tuple[Labels, float]], wait: int, times: int
    ) -> None:
        for k in range(times):
            self.now += wait
            again = [(labels, value + k) for labels, value in samples if not is_stale(value)]
            self.write(key, self.now, again)

    @rule(key=st.sampled_from(SOURCES), samples=rounds, back=st.integers(0, TOLERANCE))
    def append_late(self, key: str, samples: list[tuple[Labels, float]], back: int) -> None:
        self.write(key, self.now - back, samples)

    @rule(key=st.sampled_from(SOURCES), wait=st.integers(1, 30))
    def fail(self, key: str, wait: int) -> None:
        self.now += wait
        self.scrapers[key].source.stale(self.now)
        self.reference.append(key, self.now, [])

    @rule(key=st.sampled_from(SOURCES), wait=st.none() | st.integers(-100, 30))
    def remove(self, key: str, wait: int | None) -> None:
        at = None if wait is None else self.now + wait
        self.scrapers[key].source.remove(at)
        self.reference.remove(key, at)

    @rule(key=st.sampled_from(SOURCES))
    def come_back(self, key: str) -> None:
        source = self.head.source(key)
        if source is not self.scrapers[key].source:
            self.scrapers[key] = Scraper(self.head, key)
            self.reference.sources[key].last = None
        self.reference.source(key)

    @rule(by=st.integers(-2000, 5000))
    def step_clock(self, by: int) -> None:
        self.now += by

    @rule(keep=keeps)
    def reload(self, keep: dict[str, Millis | None]) -> None:
        self.head.reconfigure(keep.get)
        self.reference.reconfigure(keep.get)

    @rule(selector=st.sampled_from(SELECTORS), back=st.integers(0, 600), span=spans)
    def read_window(self, selector: tuple[Matcher, ...], back: int, span: int) -> None:
        upto = self.now - back
        after = upto - span
        found = self.head.window(selector, after, upto)
        head = {
            labels: [
                (int(found.times[i, k]), bits(found.values[i, k])) for k in range(found.counts[i])
            ]
            for i, labels in enumerate(found.layout.labels)
        }
        assert all(bits(v) != bits(STALE_NAN) for v in found.values.ravel())
        for labels, events in self.reference.events():
            if not all(m.matches(labels.get(m.name, "")) for m in selector):
                continue
            within = [e for e in events if after < e.at <= upto and not is_stale(e.value)]
            got = head.pop(labels, [])
            assert [e.at for e in within if e.sure] == [
                at for at, _ in got if at in {e.at for e in within if e.sure}
            ]
            assert set(got) <= {(e.at, bits(e.value)) for e in within}
            assert sorted(got, key=lambda sample: sample[0]) == got
        assert not any(head.values())

    @rule(selector=st.sampled_from(SELECTORS), back=st.integers(0, 600), span=spans)
    def read_instant(self, selector: tuple[Matcher, ...], back: int, span: int) -> None:
        at = self.now - back
        found = self.head.instant(selector, at, span)
        head = {
            labels: (int(found.times[i]), bits(found.values[i]))
            for i, labels in enumerate(found.layout.labels)
            if found.present[i]
        }
        for labels, events in self.reference.events():
            if not all(m.matches(labels.get(m.name, "")) for m in selector):
                continue
            newest = [event for event in events if at - span < event.at <= at][-1:]
            got = head.pop(labels, None)
            want = [(e.at, bits(e.value)) for e in newest if not is_stale(e.value)]
            if newest and not newest[0].sure:
                continue
            assert ([] if got is None else [got]) == want
        assert not head

    @invariant()
    @precondition(lambda self: hasattr(self, "head"))
    def layouts_last(self) -> None:
        for selector in SELECTORS:
            layout = self.head.instant(selector, self.now, 1).layout
            before = self.layouts.get(selector)
            if before is not None and before.labels == layout.labels:
                assert before is layout
            self.layouts[selector] = layout


HeadAgainstReference.TestCase.settings = settings(
    deadline=None,
    max_examples=50,
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestHeadAgainstReference: Callable[..., object] = HeadAgainstReference.TestCase
