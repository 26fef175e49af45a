"""What pages and API see of notifications."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.support.notifiers import ONE, Scene, down, play, until
from tests.support.pages import HOOK, HOUR, alert

from enginewatch.config import parse_matchers
from enginewatch.desk import NotifierDesk
from enginewatch.errors import EnginewatchError
from enginewatch.notify.outbox import EntryState
from enginewatch.notify.silence import Silence

A, B = alert("A"), alert("B")


def test_the_desk_shows_deliveries_of_an_alert_and_keeps_silences() -> None:
    scene = Scene()
    scene.receivers[0].errors = [down()]

    async def act() -> None:
        desk = NotifierDesk(scene.notifier, scene.alerts.values, lambda: ["hook"])
        scene.take(A)
        await until(lambda: scene.got)
        await asyncio.sleep(0.01)
        (delivery,) = desk.deliveries(A)
        assert (delivery.receiver, delivery.at, delivery.attempts) == (HOOK, None, 1)
        assert "timed out" in delivery.detail
        scene.later(10_000)
        await until(lambda: len(scene.got) == 2)
        await asyncio.sleep(0.01)
        (delivery,) = desk.deliveries(A)
        assert (delivery.at, delivery.detail, delivery.attempts) == (scene.now, "taken", 0)
        (entry,) = desk.history(A)
        assert (entry.state, entry.attempts, entry.detail) == (EntryState.DELIVERED, 2, "taken")
        assert not list(desk.deliveries(replace(A, fired_at=scene.now + 1)))
        await desk.keep()
        scene.memory.works = False
        with pytest.raises(EnginewatchError, match="could not be saved"):
            await desk.keep()

    play(scene, act)


def test_the_desk_knows_what_inhibits_and_what_silences() -> None:
    rule = "inhibit_rules: [{source_matchers: [alertname=A], target_matchers: [alertname=B]}]\n"
    scene = Scene(config=ONE + rule)
    desk = NotifierDesk(scene.notifier, scene.alerts.values, lambda: ["hook"])

    async def act() -> None:
        scene.take(A, B)
        assert desk.receivers() == ["hook"]
        assert list(desk.alerts()) == [A, B]
        assert desk.external_url() == "http://watch"
        assert desk.muting(B, scene.now).inhibited_by == (A.labels,)
        now = scene.now
        known = Silence(parse_matchers("alertname=A"), now, now + HOUR, "ana", "known")
        kept = desk.silences.put(known, now)
        await desk.keep()
        assert desk.muting(A, now).silenced_by == (kept.id,)
        assert [silence.id for silence in scene.memory.saved().silences] == [kept.id]

    play(scene, act)
    assert not scene.got
