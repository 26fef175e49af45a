"""What receivers get while the wall clock is set: what they would have, when they would have."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.support.notifiers import ONE, Scene, down, play, until
from tests.support.pages import HOUR, alert

from enginewatch.config import parse_matchers
from enginewatch.model import Millis
from enginewatch.notify.silence import Silence

A, B = alert("A"), alert("B", deployment="other")


def test_a_clock_that_was_set_is_noticed(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()

    async def act() -> None:
        scene.take(A)
        await until(lambda: scene.got)
        await asyncio.sleep(0.01)
        scene.set_clock(-10 * HOUR)
        scene.notifier.tick(scene.now)
        assert scene.notifier.step == (scene.now, -10 * HOUR)
        scene.later(1_000)
        scene.take(B)
        scene.later(1_000)
        await until(lambda: len(scene.got) == 2)

    play(scene, act)
    assert "the clock was set by -10h" in caplog.text


@pytest.mark.parametrize("span", [HOUR, -HOUR])
def test_what_comes_just_after_the_clock_was_set_makes_no_repetition_due(span: Millis) -> None:
    repeats = ONE.replace("group_wait: 0s", "group_wait: 0s, repeat_interval: 30m")
    scene = Scene(config=repeats)

    async def act() -> None:
        scene.take(A)
        await until(lambda: scene.memory.entries and not scene.notifier._drafts)
        scene.set_clock(span)
        # News of another group wakes the courier before the next tick.
        scene.take(B)
        await until(lambda: len(scene.got) == 2)
        scene.later(30 * 60_000)
        await until(lambda: len(scene.got) == 4)

    play(scene, act)
    assert scene.receivers[0].reasons == ["first", "first", "repeat", "repeat"]


@pytest.mark.parametrize("span", [HOUR, -HOUR])
def test_a_retry_comes_when_it_would_have_although_the_clock_was_set(span: Millis) -> None:
    scene = Scene()
    scene.receivers[0].errors = [down()]

    async def act() -> None:
        scene.take(A)
        await until(lambda: scene.notifier.tally._attempts)
        scene.set_clock(span)
        scene.notifier.tick(scene.now)
        scene.later(5_000)
        await until(lambda: len(scene.got) == 2)

    play(scene, act)


def test_what_changes_while_a_page_is_on_its_way_does_not_wait_for_a_clock_set_back() -> None:
    scene = Scene()
    scene.receivers[0].hold = asyncio.Event()

    async def act() -> None:
        scene.take(A)
        await until(lambda: scene.got)
        scene.set_clock(-HOUR)
        scene.take(replace(A, resolved_at=scene.now))
        assert scene.receivers[0].hold is not None
        scene.receivers[0].hold.set()
        scene.later(1_000)
        await until(lambda: len(scene.got) == 2)

    play(scene, act)
    assert scene.receivers[0].reasons == ["first", "all_resolved"]


@pytest.mark.parametrize("span", [HOUR, -HOUR])
def test_a_silence_in_force_keeps_its_remaining_time_when_the_clock_is_set(span: Millis) -> None:
    scene = Scene()
    matchers = parse_matchers("verdict=v")

    def silenced() -> bool:
        return bool(scene.notifier.pipeline.muting(A, scene.now))

    before = scene.now
    plain = Silence(matchers, before, before + 30 * 60_000, "me", "known")
    scene.notifier.silences.put(plain, scene.now)
    scene.set_clock(span)
    scene.notifier.tick(scene.now)
    assert silenced()
    scene.now += 29 * 60_000
    assert silenced()
    scene.now += 60_000
    assert not silenced()
    scene.set_clock(-HOUR)
    scene.notifier.tick(scene.now)
    assert not silenced(), "what has expired stays so"
