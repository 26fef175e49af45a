"""The notifications' side as a whole: what its receivers get, and when."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.notifiers import ONE, QUICK, TWO, Recorder, Scene, down, play, refused, until
from tests.support.pages import HOOK, START, alert, ended

from enginewatch.config import parse_config
from enginewatch.notify.deliver import STALLED
from enginewatch.notify.message import FailureReason, Reason
from enginewatch.notify.notifier import UNHEARD, set_up
from enginewatch.notify.outbox import EntryState

A, B = alert("A"), alert("B")


def test_a_receipt_is_handed_back_until_the_incident_is_over() -> None:
    scene = Scene()

    async def act() -> None:
        for number, alerts in enumerate([(A,), (B,), (ended(A, START), ended(B, START)), (A,)]):
            scene.later(1_000)
            scene.take(*alerts)
            await until(lambda n=number: len(scene.got) == n + 1)  # type: ignore[misc]
            await asyncio.sleep(0.01)

    play(scene, act)
    assert [previous and previous.state["ts"] for _, previous in scene.got] == [
        None,
        "1",
        "2",
        None,
    ]
    assert scene.receivers[0].reasons == ["first", "new_alerts", "all_resolved", "first"]
    assert len({n.dedup_key for n, _ in scene.got}) == 1
    assert len({n.id for n, _ in scene.got}) == 4


def test_it_is_written_down_before_it_is_sent() -> None:
    scene = Scene()
    scene.receivers[0].hold = asyncio.Event()

    async def act() -> None:
        scene.take(A)
        await until(lambda: scene.got)
        assert scene.memory.commits == 1
        (entry,) = scene.memory.entries.values()
        assert entry.state is EntryState.SENDING
        ((lane,),) = (g.lanes for g in scene.memory.saved().groups)
        assert list(lane.told.values()) == [1]  # it may have been told from here on
        assert scene.receivers[0].hold is not None
        scene.receivers[0].hold.set()

    play(scene, act)
    (entry,) = scene.memory.entries.values()
    assert (entry.state, entry.detail) == (EntryState.DELIVERED, "taken")


def test_what_cannot_be_written_is_sent_all_the_same() -> None:
    scene = Scene()
    scene.memory.works = False

    async def act() -> None:
        scene.take(A)
        await until(lambda: scene.got)

    play(scene, act)


def test_an_alert_is_told_as_it_stands_when_it_is_told() -> None:
    scene = Scene()

    async def act() -> None:
        scene.take(A)
        scene.alerts[A.labels] = replace(A, value=7.0, annotations={"summary": "worse"})
        await until(lambda: scene.got)

    play(scene, act)
    assert scene.got[0][0].alerts[0].annotations["summary"] == "worse"


def test_the_evidence_that_an_incident_began_with_is_told_with_it() -> None:
    scene = Scene()
    began = replace(A, annotations={"summary": "bad", "evidence": "log: line"})

    async def act() -> None:
        scene.take(began)
        scene.alerts[A.labels] = replace(A, annotations={"summary": "worse"})
        await until(lambda: scene.got)

    play(scene, act)
    told = scene.got[0][0].alerts[0].annotations
    assert told == {"summary": "worse", "evidence": "log: line"}


@pytest.mark.parametrize("maybe", [True, False])
def test_another_attempt_is_the_same_notification_and_says_whether_it_may_have_come(
    maybe: bool, caplog: pytest.LogCaptureFixture
) -> None:
    scene = Scene()
    scene.receivers[0].errors = [down(maybe=maybe), down()]

    async def act() -> None:
        scene.take(A)
        for count in (1, 2, 3):
            await until(lambda n=count: len(scene.got) == n)  # type: ignore[misc]
            await asyncio.sleep(0.01)
            scene.later(10_000)

    play(scene, act)
    assert len({n.id for n, _ in scene.got}) == 1
    assert [n.maybe_repeat for n, _ in scene.got] == [False, maybe, maybe]
    assert caplog.text.count("waits for another attempt") == 1
    standing = scene.notifier.tally.standings[HOOK]
    assert standing.attempts_failed[FailureReason.TIMEOUT] == 2
    assert sum(standing.failed.values()) == 0
    assert standing.delivered == 1


def test_what_is_refused_for_good_is_counted_told_and_tried_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene()
    scene.receivers[0].errors = [refused(), refused()]

    async def act() -> None:
        scene.take(A)
        await until(lambda: len(scene.got) == 1)
        await asyncio.sleep(0.01)
        scene.later(299_000)
        scene.notifier.look(scene.now)
        standing = scene.notifier.tally.standings[HOOK]
        assert standing.failed[FailureReason.REJECTED] == 1
        assert (standing.pending, standing.owed_for) == (1, 299_000)
        await asyncio.sleep(0.02)
        assert len(scene.got) == 1
        scene.later(1_000)
        await until(lambda: len(scene.got) == 2)
        await asyncio.sleep(0.01)
        scene.take(ended(A, scene.now))
        scene.later(1_200_000)
        await until(lambda: len(scene.got) == 4)

    play(scene, act)
    assert scene.receivers[0].reasons == ["first", "first", "first", "all_resolved"]
    assert "refused, and tried anew in 5m: hook/webhook[0]: answered 403" in caplog.text


def test_an_end_of_the_process_sends_what_waits_for_its_time() -> None:
    scene = Scene(config=ONE.replace("group_wait: 0s", "group_wait: 1h"))

    async def act() -> None:
        scene.take(A)
        await asyncio.sleep(0.02)
        assert not scene.got
        assert await scene.notifier.drain(5) == 0

    play(scene, act)
    assert scene.receivers[0].reasons == ["first"]
    assert scene.receivers[0].closed


def test_the_end_does_not_wait_for_who_does_not_answer() -> None:
    scene = Scene()
    scene.receivers[0].hold = asyncio.Event()

    async def act() -> None:
        scene.take(A)
        assert await scene.notifier.drain(0.05) == 1

    play(scene, act)


def test_receivers_change_with_the_configuration() -> None:
    old, other = Recorder(), Recorder("other/webhook[0]")
    scene = Scene(old)

    async def act() -> None:
        scene.take(A)
        await until(lambda: old.got)
        await asyncio.sleep(0.01)
        new = Recorder()
        scene.receivers = (new, other)
        config = parse_config(TWO.replace(QUICK, ""), Path("e.yml"))
        scene.notifier.reconfigure(set_up(config, scene.receivers, ""), scene.now)
        await until(lambda: old.closed)
        scene.later(5_000)
        await until(lambda: other.got)
        scene.take(ended(A, scene.now))
        scene.later(60_000)
        await until(lambda: len(other.got) == 2 and len(new.got) == 3)
        assert sorted(new.reasons) == ["all_resolved", "all_resolved", "first"]

    play(scene, act)
    assert len(old.got) == 1


def test_nobody_is_left_when_every_receiver_has_been_gone_for_a_while() -> None:
    one, other = Recorder(), Recorder("other/webhook[0]")
    scene = Scene(one, other, config=TWO.replace(QUICK, ""))
    one.errors = [down() for _ in range(9)]

    async def act() -> None:
        scene.take(A)
        scene.later(1_000)
        await until(lambda: one.got and other.got)
        await asyncio.sleep(0.01)
        scene.now += UNHEARD + 1
        scene.notifier.look(scene.now)
        assert scene.notifier.unheard() is None  # the other one took it
        other.errors = [down() for _ in range(9)]
        scene.take(ended(A, scene.now))
        scene.later(1_000)
        await until(lambda: len(other.got) == 2)
        await asyncio.sleep(0.01)
        scene.now += UNHEARD + 1
        scene.notifier.look(scene.now)
        assert scene.notifier.unheard() == f"no receiver answers: {HOOK}, other/webhook[0]"

    play(scene, act)


def test_a_courier_that_stands_still_is_an_ailment_and_one_that_waits_is_none() -> None:
    scene = Scene()

    async def act() -> None:
        scene.take(A)
        assert scene.notifier.ailment(scene.now + STALLED) is None
        # The courier has had no turn since: nothing is awaited here.
        assert scene.notifier.ailment(scene.now + STALLED + 1) == f"nothing leaves for {HOOK}"
        await until(lambda: scene.got)
        assert scene.notifier.ailment(scene.now + 10 * STALLED) is None

    play(scene, act)


def test_without_receivers_nobody_is_missed() -> None:
    scene = Scene(config="")
    scene.notifier.look(scene.now)
    assert scene.notifier.unheard() is None


def test_reasons_are_those_of_the_protocol() -> None:
    assert {reason.value for reason in Reason} == {
        "first",
        "new_alerts",
        "new_resolved",
        "all_resolved",
        "repeat",
        "resend",
    }
