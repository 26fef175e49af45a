"""Groups, members, silences and entries come back from SQLite as they were."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginewatch.config import parse_matchers
from enginewatch.model import Alert, Labels, freeze
from enginewatch.notify import outbox
from enginewatch.notify.group import GroupState
from enginewatch.notify.lane import Lane, Member, Told
from enginewatch.notify.ledger import Changes
from enginewatch.notify.message import Receipt
from enginewatch.notify.outbox import MOST_ENTRIES, RETENTION, Entry, EntryState
from enginewatch.notify.silence import Silence

texts = st.text(st.characters(codec="utf-8"), max_size=6)
times = st.integers(0, 2**50)
maps = st.dictionaries(texts, texts, max_size=3)
lanes = st.builds(
    Lane,
    receiver=texts,
    told=st.dictionaries(st.integers(1, 99), st.sampled_from(Told), max_size=3),
    news_at=st.none() | times,
    decided_at=st.none() | times,
    delivered_at=st.none() | times,
    failed_at=st.none() | times,
    wait=st.integers(0, 10**7),
    attempts=st.integers(0, 99),
    owed_since=st.none() | times,
    looked_at=st.none() | times,
    doubt=st.booleans(),
    receipt=st.none() | st.builds(Receipt, maps.map(freeze), texts),
    open=st.booleans(),
)
labels = maps.map(Labels)
alerts = st.builds(
    Alert,
    labels,
    maps.map(freeze),
    st.floats(allow_nan=False),
    times,
    st.none() | times,
    st.none() | times,
    st.booleans(),
)
members = st.builds(Member, st.integers(1, 999), alerts, st.booleans(), st.booleans())
groups = st.builds(GroupState, texts, texts, labels, st.lists(lanes, max_size=2).map(tuple))
silences = st.builds(
    Silence,
    st.just(parse_matchers('a=~"b|c", d!="\\"é"')),
    times,
    times,
    texts,
    texts,
    texts,
    times,
)


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    db = opened()
    yield db
    db.close()


def opened() -> sqlite3.Connection:
    db = sqlite3.connect(":memory:")
    for migration in outbox.MIGRATIONS:
        db.executescript(migration)
    return db


def changes(
    group: GroupState | None = None, member: Member | None = None, silence: Silence | None = None
) -> Changes:
    return Changes(
        {group.key: group} if group else {},
        {member.id: ("key", member)} if member else {},
        {silence.id: silence} if silence else {},
    )


def test_a_lane_as_an_earlier_version_wrote_it_is_read(db: sqlite3.Connection) -> None:
    lane = {"receiver": "r", "told": [[7, 2]], "wait": 0, "attempts": 0, "doubt": False}
    lane |= {"open": True, "news_at": None, "decided_at": 5, "delivered_at": 6}
    lane |= {"failed_at": None, "owed_since": None, "looked_at": None}
    db.execute("INSERT INTO notify_group VALUES ('key', 'route', '{}', ?)", (json.dumps([lane]),))
    ((_, _, _, (found,)),) = outbox.load(db).groups
    assert found == Lane("r", {7: Told.FIRING}, decided_at=5, delivered_at=6)


@given(groups, members, silences)
@settings(deadline=None, max_examples=60)
def test_all_of_it_comes_back(group: GroupState, member: Member, silence: Silence) -> None:
    db = opened()
    outbox.write(db, changes(group, member, silence), [])
    saved = outbox.load(db)
    db.close()
    assert saved.groups == (group,)
    assert saved.members == (("key", member),)
    assert saved.silences == (silence,)


def test_a_value_that_is_no_number_comes_back(db: sqlite3.Connection) -> None:
    member = Member(1, Alert(Labels(), {}, math.nan, 0), heard=True)
    outbox.write(db, changes(member=member), [])
    ((_, found),) = outbox.load(db).members
    assert math.isnan(found.alert.value)


def test_what_is_gone_is_deleted_and_what_is_void_too(db: sqlite3.Connection) -> None:
    member = Member(1, Alert(Labels(), {}, 1.0, 0), heard=True)
    group = GroupState("key", "route", Labels(), (Lane("r"),))
    outbox.write(db, changes(group, member), [])
    outbox.write(db, Changes({"key": None}, {1: None}), [])
    assert outbox.load(db) == ((), (), ())
    outbox.write(db, changes(group, member), [])
    outbox.write(db, Changes(), [], anew=True)
    assert outbox.load(db) == ((), (), ())


def entry(id_: str, changed_at: int) -> Entry:
    return Entry(id_, "r", "key", "first", 1, 0, 0, EntryState.SENDING, 1, changed_at)


def test_the_record_keeps_the_last_state_of_each_and_forgets_the_old(
    db: sqlite3.Connection,
) -> None:
    later = entry("a", 20)._replace(state=EntryState.DELIVERED, detail="ok")
    outbox.write(db, Changes(), [entry("a", 10), entry("b", 15)])
    outbox.write(db, Changes(), [later])
    assert outbox.recent(db, 10) == [entry("b", 15), later]
    assert outbox.recent(db, 1) == [later]
    outbox.prune(db, 15 + RETENTION)
    assert outbox.recent(db, 10) == [entry("b", 15), later]
    outbox.prune(db, 16 + RETENTION)
    assert outbox.recent(db, 10) == [later]


def test_the_record_is_bounded(db: sqlite3.Connection) -> None:
    outbox.write(db, Changes(), [entry(str(n), n) for n in range(MOST_ENTRIES + 100)])
    outbox.prune(db, 0)
    assert len(outbox.recent(db, 10**6)) <= MOST_ENTRIES + 1
