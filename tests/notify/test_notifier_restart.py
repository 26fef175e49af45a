"""What another process tells that goes on from what was written."""

from __future__ import annotations

import asyncio

from tests.support.notifiers import Scene, down, play, until
from tests.support.pages import HOOK, alert, ended

A, B = alert("A"), alert("B")


def test_a_restart_during_an_attempt_sends_the_same_again_with_its_receipt() -> None:
    scene = Scene()

    async def act() -> None:
        scene.take(A)
        await until(lambda: scene.got)
        await asyncio.sleep(0.01)
        scene.receivers[0].hold = asyncio.Event()
        scene.later(1_000)
        scene.take(B)
        await until(lambda: len(scene.got) == 2)
        # Killed here; another process finds what was written.
        scene.receivers[0].hold = None
        successor = scene.new_notifier()
        successor.restore(scene.memory.saved(), scene.memory.entries.values(), scene.now)
        successor.run()
        await until(lambda: len(scene.got) == 3)
        await successor.drain(1)

    play(scene, act)
    (_, before), (second, _), (third, previous) = scene.got
    assert before is None
    assert second.id == third.id
    assert third.maybe_repeat
    assert previous is not None
    assert previous.state == {"ts": "1"}


def successor_hears(scene: Scene) -> list[str]:
    """What another process tells that finds what was written until now."""
    heir = Scene()
    heir.now = scene.now
    heir.alerts = scene.alerts

    async def act() -> None:
        entries = scene.memory.entries.values()
        heir.notifier.restore(scene.memory.saved(), entries, heir.now)
        await asyncio.sleep(0.02)

    play(heir, act)
    return heir.receivers[0].reasons


def test_what_was_taken_is_not_told_again_by_a_process_after_a_kill() -> None:
    scene = Scene()

    async def act() -> None:
        scene.take(A)
        await until(lambda: taken() == 1)
        heirs.append(await asyncio.to_thread(successor_hears, scene))
        scene.later(1_000)
        scene.take(ended(A, scene.now))
        await until(lambda: taken() == 2)
        heirs.append(await asyncio.to_thread(successor_hears, scene))

    def taken() -> int:
        scene.notifier.look(scene.now)
        return scene.notifier.tally.standings[HOOK].delivered

    heirs: list[list[str]] = []
    play(scene, act)
    assert heirs == [[], []]


def test_what_was_certainly_not_taken_is_not_told_as_resolved_after_a_kill() -> None:
    scene = Scene()
    scene.receivers[0].errors = [down(maybe=False)]

    async def act() -> None:
        scene.take(A)
        await until(lambda: [e.state for e in scene.memory.entries.values()] == ["waiting"])
        ((lane,),) = (group.lanes for group in scene.memory.saved().groups)
        assert not lane.told
        assert not lane.doubt

    play(scene, act)
