"""Alerts and notifications are saved together, or told all the same when they can't be."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.support.pages import START, World, alert

from enginewatch import statefile
from enginewatch.alerting.snapshot import RuleKey, Snapshot
from enginewatch.alerting.state import Tracked
from enginewatch.keeper import RECENT, Keeper, Loaded
from enginewatch.notify.ledger import Changes
from enginewatch.notify.outbox import Entry, EntryState
from enginewatch.statefile import Fault, StateError

KEY = RuleKey("group", "A", ())
A = alert("A")


def snapshot(at: int = START) -> Snapshot:
    return Snapshot(at, {KEY: {A.labels: Tracked(A)}})


def entry(number: int = 0, state: EntryState = EntryState.SENDING) -> Entry:
    return Entry(f"id{number}", "hook/webhook[0]", "{}", "first", 1, 0, START, state, 1, START)


class Owner:
    """What the daemon is to a keeper."""

    def __init__(self, path: Path):
        self.world = World()
        self.at = START
        self.path = path

    def keeper(self, **given: float) -> Keeper:
        return Keeper(self.path, lambda: START, self.everything, **given)

    def everything(self) -> tuple[Snapshot, Changes]:
        return snapshot(self.at), self.world.pipeline.everything()

    def fire(self) -> Changes:
        self.world.pipeline.take([A], START)
        return self.world.pipeline.changes()


@pytest.fixture
def owner(tmp_path: Path) -> Owner:
    return Owner(tmp_path / "state.db")


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def all_of_it() -> None:
        await work()

    asyncio.run(all_of_it())


async def loaded(owner: Owner) -> Loaded:
    other = owner.keeper()
    found = await other.load()
    await other.close()
    return found


def test_what_was_committed_comes_back(owner: Owner) -> None:
    async def work() -> None:
        keeper = owner.keeper()
        assert await keeper.load() == Loaded()
        keeper.put(owner.fire(), [entry()], snapshot())
        assert await keeper.commit()
        await keeper.close()
        found = await loaded(owner)
        assert found.alerts == snapshot()
        assert [group.key for group in found.saved.groups] == [
            '{}/hook:{deployment="chat", verdict="v"}'
        ]
        ((_, member),) = found.saved.members
        assert member.alert == A
        assert found.entries == (entry(),)

    run(work)


def test_what_was_put_is_saved_at_the_end_without_a_commit(owner: Owner) -> None:
    async def work() -> None:
        keeper = owner.keeper()
        keeper.put(Changes(), [entry()])
        await keeper.close()
        assert (await loaded(owner)).entries == (entry(),)

    run(work)


def test_commits_share_transactions(owner: Owner) -> None:
    async def work() -> None:
        keeper = owner.keeper()
        await keeper.commit()

        async def one(number: int) -> None:
            keeper.put(Changes(), [entry(number)])
            assert await keeper.commit()

        await asyncio.gather(*(one(number) for number in range(200)))
        await keeper.close()
        assert len((await loaded(owner)).entries) == 200

    run(work)


def test_another_process_may_not_use_the_same_state(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statefile, "WAIT_SECONDS", 0.01)

    async def work() -> None:
        keeper = owner.keeper()
        await keeper.commit()
        with pytest.raises(StateError, match="another enginewatch"):
            await owner.keeper().load()
        await keeper.close()
        assert await loaded(owner) == Loaded()

    run(work)


def test_a_successor_waits_for_its_predecessor_to_end(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statefile, "WAIT_SECONDS", 0.1)

    async def work() -> None:
        keeper = owner.keeper()
        keeper.put(Changes(), [entry()])
        await keeper.commit()
        successor = owner.keeper()
        loading = asyncio.create_task(successor.load())
        await asyncio.sleep(0.15)
        await keeper.close()
        assert (await loading).entries == (entry(),)
        await successor.close()

    run(work)


def test_a_file_that_is_no_database_costs_what_it_held_and_nothing_else(owner: Owner) -> None:
    owner.path.write_bytes(b"x" * 5000)

    async def work() -> None:
        keeper = owner.keeper()
        assert await keeper.load() == Loaded()
        assert keeper.lost_at
        keeper.put(owner.fire(), [entry()], snapshot())
        assert await keeper.commit()
        await keeper.close()
        successor = owner.keeper()
        assert (await successor.load()).alerts == snapshot()
        assert not successor.lost_at
        await successor.close()

    run(work)


def test_rows_that_make_no_sense_are_set_aside_with_their_file(owner: Owner) -> None:
    async def work() -> None:
        keeper = owner.keeper()
        keeper.put(owner.fire(), [entry()], snapshot())
        await keeper.close()
        with sqlite3.connect(owner.path) as db:
            db.execute("UPDATE notify_group SET lanes = '[{}]'")
        db.close()
        assert await loaded(owner) == Loaded()
        assert owner.path.with_name("state.db.broken-1").exists()

    run(work)


def test_a_disk_that_fails_stops_nothing_and_is_made_good(
    owner: Owner, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        keeper = owner.keeper(again=0.05)
        assert await keeper.commit()
        for each in owner.path.parent.iterdir():
            each.unlink()
        owner.path.mkdir()  # nothing can be written in its place
        keeper.put(owner.fire(), [entry()], snapshot())
        assert not await keeper.commit()
        assert keeper.fault is Fault.READ_ONLY
        owner.at = START + 5
        for number in range(RECENT + 10):  # remembered, but not without end
            keeper.put(Changes(), [entry(number)])
            assert not await keeper.commit()
        await asyncio.sleep(0.2)
        assert keeper.failures[Fault.READ_ONLY] >= 2
        assert caplog.text.count("would not survive a restart") == 1
        owner.path.rmdir()
        await asyncio.sleep(0.3)
        assert keeper.fault is None
        assert "can be written again" in caplog.text
        await keeper.close()
        found = await loaded(owner)
        assert found.alerts == snapshot(START + 5)
        assert len(found.saved.members) == 1
        assert len(found.entries) == RECENT

    run(work)


def test_a_deleted_file_is_written_wholly_anew(owner: Owner) -> None:
    async def work() -> None:
        keeper = owner.keeper()
        keeper.put(owner.fire(), alerts=snapshot())
        assert await keeper.commit()
        for each in owner.path.parent.iterdir():
            each.unlink()
        keeper.put(Changes(), [entry()])
        assert await keeper.commit()
        await keeper.close()
        found = await loaded(owner)
        assert found.alerts == snapshot()
        assert len(found.saved.members) == 1
        assert found.entries == (entry(),)

    run(work)


async def committed(keeper: Keeper) -> None:
    """On a slow disk a commit may outlast a short patience."""
    async with asyncio.timeout(10):
        while not await keeper.commit():
            pass


def test_a_disk_that_hangs_holds_nobody_up(owner: Owner) -> None:
    async def work() -> None:
        keeper = owner.keeper(patience=0.05)
        await committed(keeper)
        release = threading.Event()
        keeper._thread.submit(release.wait)
        keeper.put(Changes(), [entry()])
        assert not await keeper.commit()
        assert keeper.fault is None
        release.set()
        await committed(keeper)
        await keeper.close()
        assert (await loaded(owner)).entries == (entry(),)

    run(work)


def test_a_row_that_cannot_be_written_is_no_reason_to_stop(owner: Owner) -> None:
    async def work() -> None:
        keeper = owner.keeper(again=60)
        bad = entry()._replace(detail="\ud800")  # no UTF-8 has it
        keeper.put(Changes(), [bad])
        assert not await keeper.commit()
        assert keeper.fault is Fault.OTHER
        await keeper.close()

    run(work)
