"""What an Alertmanager is told of over and over, so that it does not take it for resolved."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.notifiers import QUICK, Scene, down, play, until
from tests.support.pages import MINUTE, SECOND, World, alert, heard, silence

AM = """
receivers:
  - {name: hook, webhook_configs: [{url: 'http://x'}]}
  - {name: am, alertmanager_configs: [{url: 'http://am:9093'}]}
"""
ROUTES = """
route:
  receiver: am
  group_interval: 10m
  routes: [{matchers: [alertname=~"A|B"], receiver: am, continue: true}, {receiver: hook}]
"""
A, B = alert("A"), alert("B")


@pytest.fixture
def world() -> World:
    return World(AM + ROUTES)


def to_alertmanager(world: World) -> list[tuple[int, str, str, str]]:
    world.heard = [told for told in world.heard if told.receiver.startswith("am/")]
    return heard(world)


def test_what_fires_is_sent_every_minute_and_its_end_once(world: World) -> None:
    world.fire(A)
    world.run(3 * MINUTE)
    hook = [told.reason for told in world.heard if told.receiver.startswith("hook/")]
    assert hook == ["first"]
    assert to_alertmanager(world) == [
        (1, "first", "A", ""),
        (61, "resend", "A", ""),
        (121, "resend", "A", ""),
    ]
    world.resolve(A)
    world.run(60 * MINUTE)
    assert to_alertmanager(world)[-1] == (181, "all_resolved", "", "A")


def test_news_that_waits_for_the_groups_interval_comes_with_the_next(world: World) -> None:
    world.fire(A)
    world.run(30 * SECOND)
    world.fire(B)
    world.run(40 * SECOND)
    assert to_alertmanager(world)[1:] == [(61, "new_alerts", "AB", "")]


def test_a_silence_of_ours_resolves_nothing_over_there(world: World) -> None:
    world.fire(A)
    world.run(30 * SECOND)
    silence(world)
    world.run(2 * MINUTE)
    assert [told[1] for told in to_alertmanager(world)] == ["first", "resend", "resend"]


def test_nor_does_a_route_that_leads_elsewhere_now(world: World) -> None:
    world.fire(A)
    world.run(30 * SECOND)
    world.reload(AM + "route: {receiver: hook}\n")
    world.run(2 * MINUTE)
    assert [told[1] for told in to_alertmanager(world)] == ["first", "resend", "resend"]
    world.resolve(A)
    world.run(MINUTE)
    assert to_alertmanager(world)[-1][1:] == ("all_resolved", "", "A")


def test_after_a_restart_it_goes_on(world: World) -> None:
    world.fire(A)
    world.run(30 * SECOND)
    world.now += 10 * MINUTE
    world.restart()
    world.run(SECOND)
    assert to_alertmanager(world)[1:] == [(630, "resend", "A", "")]


def test_one_that_was_not_taken_is_tried_again_soon(world: World) -> None:
    world.fire(A)
    world.run(30 * SECOND)
    world.refuse = True
    world.run(45 * SECOND)
    world.refuse = False
    world.run(15 * SECOND)
    assert to_alertmanager(world)[1:] == [(81, "resend", "A", "")]


def test_the_record_has_no_line_for_each_and_one_for_those_that_failed() -> None:
    name = "am/alertmanager[0]"
    scene = Scene(config=AM + QUICK.replace("hook", "am"))
    scene.receivers[0].name = name
    scene.notifier = scene.new_notifier(AM + QUICK.replace("hook", "am"))

    async def act() -> None:
        scene.take(A)
        for count in (1, 2, 3):
            await until(lambda n=count: len(scene.got) == n)  # type: ignore[misc]
            await until(lambda: not scene.notifier._drafts)
            scene.later(MINUTE)
        scene.receivers[0].errors = [down()]
        scene.take(replace(A, value=2.0))
        await until(lambda: not scene.receivers[0].errors)
        scene.later(MINUTE)
        await until(lambda: len(scene.got) == 5)

    play(scene, act)
    assert scene.receivers[0].reasons == ["first", "resend", "resend", "resend", "resend"]
    assert [(e.reason, e.state.value) for e in scene.memory.entries.values()] == [
        ("first", "delivered"),
        ("resend", "delivered"),
    ]
