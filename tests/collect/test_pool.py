"""The pool: targets come, go and change; one that hangs hurts only itself."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from tests.collect.servers import target_at

from enginewatch.collect.discovery import Discovery
from enginewatch.collect.loop import Health, TargetState
from enginewatch.collect.pool import ScrapePool
from enginewatch.collect.target import ScrapeTarget
from enginewatch.config import parse_config
from enginewatch.model import STALE_BITS, Matcher, MatchOp, Millis
from enginewatch.recording import ScrapeEvent
from enginewatch.store.head import Head

Answer = Callable[[httpx.Request], Coroutine[Any, Any, httpx.Response]]


async def page(request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, text="a 1\n")


async def hang(request: httpx.Request) -> httpx.Response:
    await asyncio.Event().wait()
    raise AssertionError


class Rig:
    """A pool whose targets are answered by a function each, at an interval of 20 ms."""

    def __init__(self, **answers: Answer):
        self.answers = answers
        self.head = Head()
        self.seen: list[tuple[str, ScrapeEvent]] = []
        self.waiting: list[tuple[Callable[[], bool], asyncio.Event]] = []
        self.now: Millis = 1_000_000
        self.pool = ScrapePool(
            self.head, observers=[self._observe], transports=self._transport, clock=self._clock
        )

    def _clock(self) -> Millis:
        self.now += 1
        return self.now

    def _transport(self, target: ScrapeTarget) -> httpx.MockTransport:
        return httpx.MockTransport(lambda request: self.answers[request.url.host](request))

    def _observe(self, target: ScrapeTarget, event: ScrapeEvent) -> None:
        self.seen.append((target.target.instance, event))
        for condition, event_ in self.waiting:
            if condition():
                event_.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        if not condition():
            done = asyncio.Event()
            self.waiting.append((condition, done))
            await asyncio.wait_for(done.wait(), 20)

    def count(self, instance: str) -> int:
        return sum(name == instance for name, _ in self.seen)

    def state(self, instance: str) -> TargetState:
        (found,) = [s for s in self.pool.states() if s.target.target.instance == instance]
        return found

    def newest(self, instance: str) -> float | None:
        matchers = [
            Matcher("__name__", MatchOp.EQUAL, "a"),
            Matcher("instance", MatchOp.EQUAL, instance),
        ]
        found = self.head.instant(matchers, self.now, 60_000)
        return float(found.values[0]) if found.present.any() else None


def quick(*names: str, settings: str = "", timeout: Millis = 20_000) -> list[ScrapeTarget]:
    """Targets with a short interval; a deadline as short would fail on a busy machine."""
    job = f", scrape_interval: 20ms{settings}"
    return [replace(target_at(name, job), timeout=timeout) for name in names]


def run(rig: Rig, test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        rig.pool.start()
        try:
            await test()
        finally:
            await rig.pool.stop()

    asyncio.run(whole())


def test_targets_are_scraped_again_and_again() -> None:
    rig = Rig(one=page, two=page)

    async def test() -> None:
        rig.pool.sync(quick("one", "two"))
        assert [s.health for s in rig.pool.states()] == [Health.UNKNOWN] * 2
        await rig.until(lambda: rig.count("one") >= 3 and rig.count("two") >= 3)

    run(rig, test)
    state = rig.state("one")
    assert (state.health, state.last_error, state.samples) == (Health.UP, "", 1)
    assert state.last_scrape is not None
    assert rig.newest("one") == 1


def test_a_target_that_hangs_or_fails_hurts_only_itself() -> None:
    async def broken(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, text="<html>")

    rig = Rig(good=page, stuck=hang, broken=broken)

    async def test() -> None:
        rig.pool.sync([*quick("good", "broken"), *quick("stuck", timeout=20)])
        await rig.until(lambda: rig.count("good") >= 5 and rig.count("stuck") >= 2)

    run(rig, test)
    assert rig.state("good").health is Health.UP
    assert rig.state("stuck").last_error == "timed out after 20ms, without an answer"
    assert rig.state("broken").last_error.startswith("the page is HTML")


def test_a_scrape_that_takes_too_long_is_not_joined_by_another() -> None:
    running = most = 0
    started = asyncio.Event()
    release = asyncio.Event()

    async def slow(request: httpx.Request) -> httpx.Response:
        nonlocal running, most
        running += 1
        most = max(most, running)
        started.set()
        await release.wait()
        running -= 1
        return httpx.Response(200, text="a 1\n")

    rig = Rig(slow=slow, good=page)

    async def test() -> None:
        rig.pool.sync(quick("slow", "good"))
        await started.wait()
        good = rig.count("good")
        await rig.until(lambda: rig.count("good") >= good + 4)
        release.set()
        await rig.until(lambda: rig.count("slow") >= 1)

    run(rig, test)
    assert most == 1
    assert rig.state("slow").skipped >= 2


def test_a_removed_target_goes_stale_and_others_stay_as_they_are() -> None:
    made: list[str] = []
    rig = Rig(gone=page, kept=page)
    transport = rig._transport

    def counting(target: ScrapeTarget) -> httpx.MockTransport:
        made.append(target.target.instance)
        return transport(target)

    rig.pool = ScrapePool(rig.head, observers=[rig._observe], transports=counting, clock=rig._clock)

    async def test() -> None:
        rig.pool.sync(quick("gone", "kept"))
        await rig.until(lambda: rig.count("gone") >= 1 and rig.count("kept") >= 1)
        assert rig.newest("gone") == 1
        rig.pool.sync(quick("kept"))
        assert rig.newest("gone") is None
        kept = rig.count("kept")
        await rig.until(lambda: rig.count("kept") >= kept + 2)

    run(rig, test)
    assert [s.target.target.instance for s in rig.pool.states()] == ["kept"]
    assert made == ["gone", "kept"]


def test_a_changed_target_keeps_its_history() -> None:
    rig = Rig(one=page)

    async def test() -> None:
        rig.pool.sync(quick("one"))
        await rig.until(lambda: rig.count("one") >= 1)
        rig.pool.sync(quick("one", settings=", params: {x: [y]}"))
        assert rig.newest("one") == 1
        before = rig.count("one")
        await rig.until(lambda: rig.count("one") >= before + 2)

    run(rig, test)
    window = rig.head.window([Matcher("__name__", MatchOp.EQUAL, "a")], 0, rig.now)
    assert len(window.layout) == 1
    assert not np.any(window.values[0, : window.counts[0]].view(np.int64) == STALE_BITS)


def test_a_scrape_under_way_when_its_target_goes_comes_to_nothing() -> None:
    started = asyncio.Event()
    release = asyncio.Event()

    async def slow(request: httpx.Request) -> httpx.Response:
        started.set()
        await release.wait()
        return httpx.Response(200, text="a 1\n")

    rig = Rig(slow=slow, good=page)

    async def test() -> None:
        rig.pool.sync(quick("slow"))
        await started.wait()
        rig.pool.sync(quick("good"))
        release.set()
        await rig.until(lambda: rig.count("good") >= 3)

    run(rig, test)
    assert rig.count("slow") == 0
    assert rig.newest("slow") is None


def test_following_a_discovery(tmp_path: Path) -> None:
    config = parse_config(
        "global: {scrape_interval: 20ms}\nscrape_configs:\n- job_name: j\n"
        "  static_configs: [{targets: [one]}]\n  file_sd_configs: [{files: [none.yml]}]\n",
        tmp_path / "e.yml",
    )
    rig = Rig(one=page, two=page)

    async def test() -> None:
        rig.pool.follow(Discovery(config))
        assert rig.pool.problems == (f"{tmp_path}/none.yml: no such target file",)
        await rig.until(lambda: rig.count("one") >= 1)
        (tmp_path / "none.yml").write_text("- targets: [two]\n")
        rig.pool.follow(Discovery(config))
        await rig.until(lambda: rig.count("two") >= 1)

    run(rig, test)
    assert rig.pool.problems == ()


def test_a_large_page_is_parsed_aside_and_stored_all_the_same() -> None:
    big = "".join(f'a{{number="this is number {n}"}} 1\n' for n in range(9_000))

    async def large(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, text=big)

    rig = Rig(one=large)

    async def test() -> None:
        rig.pool.sync(quick("one"))
        await rig.until(lambda: rig.count("one") >= 1)

    run(rig, test)
    assert rig.state("one").samples == 9_000


def test_what_changes_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    bad = True

    async def flapping(request: httpx.Request) -> httpx.Response:
        return httpx.Response(503) if bad else await page(request)

    rig = Rig(one=flapping)

    async def test() -> None:
        nonlocal bad
        rig.pool.sync(quick("one"))
        await rig.until(lambda: rig.count("one") >= 3)
        bad = False
        await rig.until(lambda: rig.state("one").health is Health.UP)

    with caplog.at_level(logging.INFO, "enginewatch"):
        run(rig, test)
    assert caplog.messages == [
        "http://one/metrics: HTTP 503 Service Unavailable",
        "http://one/metrics: up again",
    ]
