"""The notifications' side as a whole, with receivers that remember and a memory that can fail."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from tests.support.pages import START, alert, ended

from enginewatch.config import parse_config
from enginewatch.desk import NotifierDesk
from enginewatch.errors import EnginewatchError
from enginewatch.model import Alert, Millis, freeze
from enginewatch.notify.ledger import Changes, Saved
from enginewatch.notify.message import DeliveryError, FailureReason, Notification, Reason, Receipt
from enginewatch.notify.notifier import UNHEARD, Notifier, set_up
from enginewatch.notify.outbox import Entry, EntryState

A, B = alert("A"), alert("B")
QUICK = "route: {receiver: hook, group_wait: 0s, group_interval: 1ms}\n"
ONE = "receivers: [{name: hook, webhook_configs: [{url: 'http://x'}]}]\n" + QUICK
TWO = ONE.replace("]}]", "]}, {name: other, webhook_configs: [{url: 'http://y'}]}]")
HOOK = "hook/webhook[0]"


@dataclass
class Recorder:
    name: str = HOOK
    send_resolved: bool = True
    got: list[tuple[Notification, Receipt | None]] = field(default_factory=list)
    errors: list[DeliveryError] = field(default_factory=list)
    closed: bool = False
    hold: asyncio.Event | None = None

    async def send(self, notification: Notification, previous: Receipt | None = None) -> Receipt:
        self.got.append((notification, previous))
        if self.hold is not None:
            await self.hold.wait()
        if self.errors:
            raise self.errors.pop(0)
        return Receipt(freeze({"ts": str(len(self.got))}), "taken")

    async def close(self) -> None:
        self.closed = True

    @property
    def reasons(self) -> list[str]:
        return [notification.reason.value for notification, _ in self.got]


class Memory:
    """A keeper whose disk is a dictionary: what was put is on it once it has been committed."""

    def __init__(self) -> None:
        self.changes = Changes()
        self.entries: dict[str, Entry] = {}
        self.works = True
        self.commits = 0
        self._put: list[tuple[Changes, tuple[Entry, ...]]] = []

    def put(self, changes: Changes, entries: Iterable[Entry] = ()) -> None:
        self._put.append((changes, tuple(entries)))

    async def commit(self) -> bool:
        self.commits += 1
        await asyncio.sleep(0)
        if self.works:
            put, self._put = self._put, []
            for changes, entries in put:
                self.changes.update(changes)
                self.entries |= {entry.id: entry for entry in entries}
        return self.works

    def saved(self) -> Saved:
        return Saved(
            tuple(g for g in self.changes.groups.values() if g),
            tuple(m for m in self.changes.members.values() if m),
            tuple(s for s in self.changes.silences.values() if s),
        )


class Scene:
    def __init__(self, *receivers: Recorder, config: str = ONE):
        self.receivers = receivers or (Recorder(),)
        self.memory = Memory()
        self.now: Millis = START
        self.alerts: dict[object, Alert] = {}
        self.notifier = self.new_notifier(config)

    def new_notifier(self, config: str = ONE) -> Notifier:
        setup = set_up(parse_config(config, Path("e.yml")), self.receivers, "http://watch")
        return Notifier(setup, self.memory, lambda: self.now, lambda: self.alerts.values())

    def take(self, *alerts: Alert) -> None:
        self.alerts |= {each.labels: each for each in alerts}
        self.notifier.take(alerts, self.now)

    def later(self, span: Millis) -> None:
        self.now += span
        for courier in self.notifier._fleet._couriers.values():
            courier._news.set()

    @property
    def got(self) -> list[tuple[Notification, Receipt | None]]:
        return self.receivers[0].got


def play(scene: Scene, act: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        scene.notifier.run()
        try:
            await act()
        finally:
            await scene.notifier.drain(0.2)

    asyncio.run(main())


async def until(done: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not done():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def refused(*, maybe: bool = False) -> DeliveryError:
    return DeliveryError(
        "answered 403",
        where=HOOK,
        retryable=False,
        reason=FailureReason.REJECTED,
        maybe_delivered=maybe,
    )


def down(*, maybe: bool = False) -> DeliveryError:
    return DeliveryError(
        "timed out",
        where=HOOK,
        retryable=True,
        reason=FailureReason.TIMEOUT,
        maybe_delivered=maybe,
    )


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


def test_without_receivers_nobody_is_missed() -> None:
    scene = Scene(config="")
    scene.notifier.look(scene.now)
    assert scene.notifier.unheard() is None


def test_a_clock_that_was_set_is_noticed(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()

    async def act() -> None:
        scene.notifier.tick(scene.now, 1_000)
        scene.take(A)
        await until(lambda: scene.got)
        await asyncio.sleep(0.01)
        scene.now -= 10 * 3_600_000
        scene.notifier.tick(scene.now, 6_000)
        scene.now += 1_000
        scene.take(B)
        scene.later(1_000)
        await until(lambda: len(scene.got) == 2)

    play(scene, act)
    assert "the clock was set by -10h5s" in caplog.text


# The desk.


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


def test_reasons_are_those_of_the_protocol() -> None:
    assert {reason.value for reason in Reason} == {
        "first",
        "new_alerts",
        "new_resolved",
        "all_resolved",
        "repeat",
    }
