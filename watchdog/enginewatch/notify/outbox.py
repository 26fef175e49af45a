"""Groups, silences and the record of notifications as rows of the state file.

A notification is written here before its first attempt: the lane that says what
its receiver may have been told from then on, and the entry that says how it
fared. Entries are kept for a week, lanes until their incident is over.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from enginewatch.model import Alert, Labels, Matcher, MatchOp, Millis, freeze
from enginewatch.notify.group import GroupState
from enginewatch.notify.lane import Lane, Member, Told
from enginewatch.notify.ledger import Changes, Saved
from enginewatch.notify.message import Receipt
from enginewatch.notify.silence import Silence
from enginewatch.statefile import Fault, StateError

PART: Final = "notify"
MIGRATIONS: Final = (
    """
    CREATE TABLE notify_group (
        key TEXT PRIMARY KEY, route TEXT NOT NULL, labels TEXT NOT NULL, lanes TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE notify_member (
        id INTEGER PRIMARY KEY, group_key TEXT NOT NULL, alert TEXT NOT NULL,
        heard INTEGER NOT NULL, belongs INTEGER NOT NULL
    );
    CREATE TABLE silence (id TEXT PRIMARY KEY, silence TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE outbox (
        id TEXT PRIMARY KEY, receiver TEXT NOT NULL, group_key TEXT NOT NULL,
        reason TEXT NOT NULL, firing INTEGER NOT NULL, resolved INTEGER NOT NULL,
        at INTEGER NOT NULL, state TEXT NOT NULL, attempts INTEGER NOT NULL,
        changed_at INTEGER NOT NULL, detail TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX outbox_by_time ON outbox (changed_at)
    """,
)

RETENTION: Final[Millis] = 7 * 24 * 3_600_000
MOST_ENTRIES: Final = 20_000
"""Of the record of notifications, so that a flood of them does not fill the disk."""


class EntryState(StrEnum):
    SENDING = "sending"
    WAITING = "waiting"
    """Refused or lost for now; another attempt follows."""
    DELIVERED = "delivered"
    FAILED = "failed"
    """Refused for good as it is; its group is told anew later."""


class Entry(NamedTuple):
    """One notification, and how it stands: `detail` is the provider's answer or the error.

    `firing` and `resolved` count alerts. `at` is when it was decided on.
    """

    id: str
    receiver: str
    group_key: str
    reason: str
    firing: int
    resolved: int
    at: Millis
    state: EntryState
    attempts: int
    changed_at: Millis
    detail: str = ""


def load(db: sqlite3.Connection) -> Saved:
    """All that was saved. Raises StateError for rows that make no sense."""
    try:
        return Saved(
            tuple(map(_group, db.execute("SELECT key, route, labels, lanes FROM notify_group"))),
            tuple(
                map(
                    _member,
                    db.execute("SELECT id, group_key, alert, heard, belongs FROM notify_member"),
                )
            ),
            tuple(_silence(text) for (text,) in db.execute("SELECT silence FROM silence")),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as failure:
        what = f"holds a group or silence that can't be read: {failure!r}"
        raise StateError(what, Fault.CORRUPT, where=PART) from None


def recent(db: sqlite3.Connection, most: int) -> list[Entry]:
    """The last entries, oldest first."""
    rows = db.execute("SELECT * FROM outbox ORDER BY changed_at DESC LIMIT ?", (most,))
    return [_entry(row) for row in reversed(rows.fetchall())]


def write(
    db: sqlite3.Connection, changes: Changes, entries: Iterable[Entry], *, anew: bool = False
) -> None:
    """Writes what changed; `anew` when that is all there is, and what the tables hold is void."""
    if anew:
        for table in ("notify_group", "notify_member", "silence"):
            db.execute(f"DELETE FROM {table}")  # noqa: S608 - a constant
    db.executemany(
        "INSERT OR REPLACE INTO notify_group VALUES (?, ?, ?, ?)",
        # In the order of the key: each would look for a place of its own otherwise.
        sorted([_group_row(group) for group in changes.groups.values() if group is not None]),
    )
    db.executemany("DELETE FROM notify_group WHERE key = ?", sorted(_gone(changes.groups)))
    db.executemany(
        "INSERT OR REPLACE INTO notify_member VALUES (?, ?, ?, ?, ?)",
        (_member_row(*member) for member in changes.members.values() if member is not None),
    )
    db.executemany("DELETE FROM notify_member WHERE id = ?", _gone(changes.members))
    db.executemany(
        "INSERT OR REPLACE INTO silence VALUES (?, ?)",
        ((s.id, _silence_text(s)) for s in changes.silences.values() if s is not None),
    )
    db.executemany("DELETE FROM silence WHERE id = ?", _gone(changes.silences))
    db.executemany(
        "INSERT OR REPLACE INTO outbox VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        entries,
    )


def prune(db: sqlite3.Connection, now: Millis) -> None:
    """Deletes entries that are too old, or too many."""
    db.execute("DELETE FROM outbox WHERE changed_at < ?", (now - RETENTION,))
    db.execute(
        "DELETE FROM outbox WHERE changed_at < ("
        " SELECT changed_at FROM outbox ORDER BY changed_at DESC LIMIT 1 OFFSET ?)",
        (MOST_ENTRIES,),
    )


def _gone(changes: Mapping[Any, object]) -> Iterator[tuple[Any]]:
    return ((key,) for key, value in changes.items() if value is None)


def _group_row(group: GroupState) -> tuple[str, str, str, str]:
    lanes = json.dumps([_lane_data(lane) for lane in group.lanes])
    return group.key, group.route, json.dumps(group.labels.plain()), lanes


def _group(row: tuple[str, str, str, str]) -> GroupState:
    key, route, labels, lanes = row
    return GroupState(
        key, route, Labels(json.loads(labels)), tuple(_lane(one) for one in json.loads(lanes))
    )


_FRESH: Final = Lane("")
_NUMBERS: Final = (
    *("wait", "attempts", "news_at", "decided_at", "delivered_at", "failed_at", "owed_since"),
    "looked_at",
)


def _lane_data(lane: Lane) -> dict[str, Any]:
    """What of it is not as in a lane on which nothing has been told: of most, little."""
    data: dict[str, Any] = {
        name: value
        for name, value, usual in zip(Lane._fields, lane, _FRESH, strict=True)
        if value != usual or name == "receiver"
    }
    if lane.told:
        data["told"] = [[id_, int(told)] for id_, told in lane.told.items()]
    if lane.receipt is not None:
        data["receipt"] = {"state": dict(lane.receipt.state), "detail": lane.receipt.detail}
    return data


def _lane(data: Mapping[str, Any]) -> Lane:
    receipt = data.get("receipt")
    return Lane(
        receiver=str(data["receiver"]),
        told={int(id_): Told(told) for id_, told in data.get("told", ())},
        doubt=bool(data.get("doubt", False)),
        open=bool(data.get("open", True)),
        receipt=None if receipt is None else Receipt(freeze(receipt["state"]), receipt["detail"]),
        **{name: int(data[name]) for name in _NUMBERS if data.get(name) is not None},
    )


def _member_row(group_key: str, member: Member) -> tuple[int, str, str, bool, bool]:
    alert = member.alert
    text = json.dumps(
        [
            alert.labels.plain(),
            dict(alert.annotations),
            None if math.isnan(alert.value) else alert.value,
            alert.active_at,
            alert.fired_at,
            alert.resolved_at,
            alert.unknown,
        ]
    )
    return member.id, group_key, text, member.heard, member.belongs


def _member(row: tuple[int, str, str, int, int]) -> tuple[str, Member]:
    id_, group_key, text, heard, belongs = row
    labels, annotations, value, *clocks, unknown = json.loads(text)
    active_at, fired_at, resolved_at = (None if at is None else int(at) for at in clocks)
    alert = Alert(
        Labels(labels),
        freeze(annotations),
        math.nan if value is None else float(value),
        active_at or 0,
        fired_at,
        resolved_at,
        bool(unknown),
    )
    return group_key, Member(id_, alert, bool(heard), bool(belongs))


def _silence_text(silence: Silence) -> str:
    data = {
        "matchers": [[m.name, m.op.value, m.value] for m in silence.matchers],
        "starts_at": silence.starts_at,
        "ends_at": silence.ends_at,
        "created_by": silence.created_by,
        "comment": silence.comment,
        "id": silence.id,
        "updated_at": silence.updated_at,
    }
    return json.dumps(data)


def _silence(text: str) -> Silence:
    data = json.loads(text)
    matchers = tuple(Matcher(name, MatchOp(op), value) for name, op, value in data.pop("matchers"))
    return Silence(matchers=matchers, **data)


def _entry(row: Iterable[Any]) -> Entry:
    entry = Entry(*row)
    return entry._replace(state=EntryState(entry.state))
