"""A round of rules reads each series once, and reads anew what it wrote."""

from __future__ import annotations

import numpy as np

from enginewatch.model import METRIC_NAME, Labels, Matcher, MatchOp
from enginewatch.store.head import Head
from enginewatch.store.rounds import RoundStore

A = (Matcher(METRIC_NAME, MatchOp.EQUAL, "a"),)
ANY = (Matcher(METRIC_NAME, MatchOp.REGEX, "a|b"),)


def write(writer: object, at: int, **samples: float) -> None:
    refs = [writer.resolve(Labels({METRIC_NAME: name})) for name in samples]  # type: ignore[attr-defined]
    writer.append(at, np.array(refs), np.array(list(samples.values())))  # type: ignore[attr-defined]


def values(store: RoundStore, matchers: tuple[Matcher, ...] = A, at: int = 950) -> list[float]:
    found = store.instant(matchers, at, 900)
    return [v for v, there in zip(found.values.tolist(), found.present, strict=True) if there]


def test_a_scrape_that_comes_in_meanwhile_is_for_the_next_round() -> None:
    head = Head()
    store, scrape = RoundStore(head), head.source("scrape")
    write(scrape, 100, a=1)
    store.begin()
    assert values(store) == [1]
    write(scrape, 200, a=2)
    assert values(store) == [1]
    store.begin()
    assert values(store) == [2]


def test_what_a_rule_writes_is_seen_by_the_rules_after_it() -> None:
    head = Head()
    store = RoundStore(head)
    rule = store.source("rule")
    store.begin()
    assert values(store) == []
    write(rule, 300, a=3)
    assert values(store) == [3]
    rule.append(400, np.empty(0, np.int64), np.empty(0))
    assert values(store) == []
    write(rule, 500, a=5)
    rule.remove(600)
    assert values(store) == []


def test_windows_are_read_once_and_anew_like_instants() -> None:
    head = Head()
    store, scrape = RoundStore(head), head.source("scrape")
    rule = store.source("rule")
    write(scrape, 100, a=1)
    store.begin()
    assert store.window(A, 0, 950).counts.tolist() == [1]
    write(scrape, 200, a=2)
    assert store.window(A, 0, 950).counts.tolist() == [1]
    write(rule, 300, a=3)
    assert store.window(A, 0, 950).counts.tolist() == [3]
    store.begin()
    assert store.window(A, 150, 950).counts.tolist() == [2]


def test_other_times_and_selections_without_a_name_are_not_mixed_up() -> None:
    head = Head()
    store, scrape = RoundStore(head), head.source("scrape")
    write(scrape, 100, a=1, b=2)
    write(scrape, 200, a=3, b=4)
    store.begin()
    assert values(store, at=150) == [1]
    assert values(store, at=250) == [3]
    assert sorted(values(store, ANY, at=250)) == [3, 4]
    write(scrape, 240, a=5, b=6)
    assert sorted(values(store, ANY, at=250)) == [5, 6]


def test_a_source_is_the_same_object_until_the_head_has_another() -> None:
    head = Head()
    store = RoundStore(head)
    first = store.source("rule")
    assert store.source("rule") is first
    first.remove(10)
    assert store.source("rule") is not first


def test_names_that_come_and_go_are_counted() -> None:
    head = Head(keep=lambda _: 100)
    store, source = RoundStore(head), head.source("s")
    before = store.names_changed
    write(source, 100, a=1)
    came = store.names_changed
    write(source, 200, a=2)
    assert (before < came, store.names_changed) == (True, came)
    source.remove(300)
    write(head.source("other"), 10_000, b=1)
    assert store.names_changed > came
    assert store.exists("b")
