"""The head's memory follows what the retention asks for, and nothing else."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from tests.store.reference import Scraper

from enginewatch.model import METRIC_NAME, Labels, Matcher, MatchOp, Millis
from enginewatch.store.head import Head
from enginewatch.store.pool import MISSING_BITS, Pool, width_for

SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
VALUE_BYTES = 8

A = (Matcher(METRIC_NAME, MatchOp.EQUAL, "a"),)


def page(series: int, **labels: str) -> list[tuple[Labels, float]]:
    return [(Labels({METRIC_NAME: "a", "n": str(n)}, **labels), float(n)) for n in range(series)]


def held(head: Head, at: Millis, back: Millis) -> int:
    return int(head.window(A, at - back, at).counts.sum())


@pytest.mark.parametrize("interval", [SECOND, 5 * SECOND, 7 * SECOND, MINUTE])
def test_no_sample_younger_than_the_retention_is_ever_lost(interval: Millis) -> None:
    head = Head(keep=lambda _: 10 * MINUTE)
    target = Scraper(head, "a")
    samples = page(2)
    for k in range(3 * 10 * MINUTE // interval):
        target.scrape(k * interval, samples)
        assert held(head, k * interval, 10 * MINUTE) == 2 * min(k + 1, -(-10 * MINUTE // interval))


def test_an_hour_costs_little_more_than_its_samples() -> None:
    head = Head(keep=lambda _: HOUR)
    scrapers = [Scraper(head, n) for n in range(5)]
    pages = [page(138, instance=str(n)) for n in range(5)]
    for at in range(0, 2 * HOUR, 5 * SECOND):
        for scraper, samples in zip(scrapers, pages, strict=True):
            scraper.scrape(at, samples)
    demanded = 5 * 138 * HOUR // (5 * SECOND)
    assert held(head, 2 * HOUR - 1, HOUR) == demanded
    assert head.stats().bytes / demanded < 1.1 * VALUE_BYTES


def test_uneven_intervals_lose_nothing_either() -> None:
    head = Head(keep=lambda _: MINUTE)
    target = Scraper(head, "a")
    samples, times = page(1), []
    at = 0
    for k in range(3000):  # bursts, pauses, and a pace that changes for good
        at += [1, 7, 400, 2500][(k // 40) % 4] + k % 3
        times.append(at)
        target.scrape(at, samples)
        if k % 17 == 0:
            assert held(head, at, MINUTE) == sum(t > at - MINUTE for t in times)


def test_a_source_that_slows_down_gives_memory_back() -> None:
    head = Head(keep=lambda _: HOUR)
    target = Scraper(head, "a")
    samples = page(50)
    for at in range(0, HOUR, SECOND):
        target.scrape(at, samples)
    fast = head.stats().bytes
    for at in range(HOUR, 4 * HOUR, MINUTE):
        target.scrape(at, samples)
    assert head.stats().bytes < fast / 10
    assert held(head, 4 * HOUR - 1, HOUR) == 50 * 60


def test_a_clock_that_jumps_a_day_ahead_allocates_nothing() -> None:
    head = Head(keep=lambda _: HOUR)
    target = Scraper(head, "a")
    samples = page(20)
    for at in range(0, HOUR, 5 * SECOND):
        target.scrape(at, samples)
    before = head.stats().bytes
    for at in range(DAY, DAY + HOUR, 5 * SECOND):
        target.scrape(at, samples)
        assert head.stats().bytes == before
    assert held(head, DAY + HOUR - 1, HOUR) == 20 * 720


def test_a_thousand_restarts_with_new_labels_cost_no_more_than_those_within_the_retention() -> None:
    head = Head(keep=lambda _: 10 * MINUTE)
    target = Scraper(head, "a")
    at, sizes, blocks, most = 0, [0, 0], [0, 0], 0
    for restart in range(1000):
        samples = page(10, pod=f"engine-{restart}")
        for _ in range(3):
            at += 10 * SECOND
            target.scrape(at, samples)
        head.instant(A, at, 5 * MINUTE)
        half = restart // 500
        sizes[half] = max(sizes[half], head.stats().bytes)
        blocks[half] = max(blocks[half], sys.getallocatedblocks())
        most = max(most, head.stats().series)
    assert most <= 10 * (20 + 6), "a retention of restarts, and one sweep's delay"
    assert sizes[1] <= sizes[0]
    assert blocks[1] <= blocks[0] + 100
    assert held(head, at, 10 * MINUTE) == 10 * 60


def test_what_a_target_held_is_used_again_and_then_given_back() -> None:
    head = Head(keep=lambda _: 10 * MINUTE)
    keeper = Scraper(head, "keeper")
    keeper.scrape(0, page(1, instance="keeper"))
    at, most = 0, []
    for generation in range(5):
        fleet = [Scraper(head, (generation, n)) for n in range(20)]
        pages = [page(20, instance=f"{generation}.{n}") for n in range(20)]
        for _ in range(70):
            at += 10 * SECOND
            keeper.scrape(at, page(1, instance="keeper"))
            for scraper, samples in zip(fleet, pages, strict=True):
                scraper.scrape(at, samples)
        most.append(head.stats().bytes)
        for scraper in fleet:
            scraper.source.remove(at)
        for _ in range(70):
            at += 10 * SECOND
            keeper.scrape(at, page(1, instance="keeper"))
    assert max(most) == most[0]
    assert (head.stats().sources, head.stats().series) == (1, 1)
    assert head.stats().bytes < most[0] / 5
    assert held(head, at, 10 * MINUTE) == 60


def test_after_a_step_back_series_are_still_forgotten_in_time() -> None:
    head = Head(keep=lambda _: 10 * MINUTE)
    target, gone = Scraper(head, "a"), Scraper(head, "gone")
    gone.scrape(DAY - MINUTE, page(5, instance="gone"))
    gone.source.remove()
    target.scrape(DAY, page(5))
    for at in range(HOUR, 2 * HOUR, 10 * SECOND):
        target.scrape(at, page(3))
        if at == HOUR + 5 * MINUTE:
            gone = Scraper(head, "gone")
            gone.scrape(at, page(5, instance="gone"))
            gone.source.remove()
    assert (head.stats().sources, head.stats().series) == (1, 3)


def test_series_that_are_resolved_and_never_written_are_forgotten() -> None:
    head = Head(keep=lambda _: MINUTE)
    source = head.source("a")
    ref = source.resolve(Labels({METRIC_NAME: "a"}))
    epochs = set()
    for k in range(1000):
        source.resolve(Labels({METRIC_NAME: "a", "n": str(k)}))
        source.append(k * SECOND, np.array([ref]), np.array([1.0]))
        epochs.add(source.epoch)
    assert head.stats().series == 1
    assert len(epochs) > 10


def test_widths_are_few_and_close() -> None:
    for samples in range(1, 5000):
        width = width_for(samples)
        assert samples <= width <= max(samples + 3, 1.03 * samples)
        assert width_for(width) == width
    assert len({width_for(n) for n in range(513, 1025)}) == 64


def test_a_pool_closes_its_holes_and_keeps_what_it_holds() -> None:
    pool = Pool(8)
    rows = pool.take(1000, owner=7)
    assert (pool.values.view(np.int64)[rows] == MISSING_BITS).all()
    pool.values[rows] = np.arange(1000)[:, None]
    size = pool.nbytes
    kept = np.arange(0, 1000, 5)
    moved = pool.give_back(np.setdiff1d(rows, rows[kept]))
    assert moved is not None
    assert pool.nbytes < size / 3
    assert (pool.values[moved[rows[kept]]] == kept[:, None]).all()
    assert (pool.owner[moved[rows[kept]]] == 7).all()
    again = pool.take(100, owner=8)
    assert not set(again.tolist()) & set(moved[rows[kept]].tolist())


@pytest.mark.parametrize("slots", [[0, 3, 7], [5, 6, 7], [7, 7, 7]])
@pytest.mark.parametrize("length", [0, 1, 3, 8])
def test_a_block_goes_around_the_ring(slots: list[int], length: int) -> None:
    pool = Pool(8)
    rows = pool.take(3, owner=0)
    pool.values[rows] = np.arange(24.0).reshape(3, 8)
    expected = [[row * 8 + (slot + k) % 8 for k in range(length)] for row, slot in enumerate(slots)]
    assert pool.block(rows, np.array(slots), length).tolist() == expected
