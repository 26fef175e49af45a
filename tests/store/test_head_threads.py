"""A reader in another thread sees whole rounds, whatever else goes on."""

from __future__ import annotations

import threading

from tests.store.reference import Scraper

from enginewatch.model import METRIC_NAME, Labels, Matcher, MatchOp
from enginewatch.store.head import Head

ROUNDS = 1500
PAGE = [Labels({METRIC_NAME: "a", "n": str(n)}) for n in range(40)]
A = (Matcher(METRIC_NAME, MatchOp.EQUAL, "a"),)


def test_a_reader_sees_whole_rounds_only() -> None:
    head = Head(keep=lambda _: 300_000)
    failures: list[str] = []
    done = threading.Event()

    def write() -> None:
        target, other = Scraper(head, "a"), Scraper(head, "b")
        for k in range(ROUNDS):
            target.scrape(k * 1000, [(labels, float(k)) for labels in PAGE])
            churn = Labels({METRIC_NAME: "b", "round": str(k)})
            other.scrape(k * 1000, [(churn, 1.0)])
            if k % 300 == 150:
                head.reconfigure({"a": 300_000 + k, "b": 60_000}.get)
        done.set()

    def read() -> None:
        latest = ROUNDS * 1000
        while not done.is_set():
            now = head.instant(A, latest, 2 * latest)
            if len(set(now.values.tolist())) > 1 or not now.present.all():
                failures.append(f"torn instant: {now.values}")
            window = head.window(A, -1, latest)
            counts = set(window.counts.tolist())
            if len(counts) > 1 or (window.times != window.times[:1]).any():
                failures.append(f"torn window: {counts}")

    writer, reader = threading.Thread(target=write), threading.Thread(target=read)
    writer.start()
    reader.start()
    writer.join(60)
    reader.join(60)
    assert done.is_set()
    assert not failures
