"""What pages and API see of notifications."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.support.notifiers import Scene, down, play, until
from tests.support.pages import HOOK, alert

from enginewatch.desk import NotifierDesk
from enginewatch.errors import EnginewatchError

A = alert("A")


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
        assert not list(desk.deliveries(replace(A, fired_at=scene.now + 1)))
        await desk.keep()
        scene.memory.works = False
        with pytest.raises(EnginewatchError, match="could not be saved"):
            await desk.keep()

    play(scene, act)
