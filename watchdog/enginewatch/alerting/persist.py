"""Alert states as rows, so that a restart neither forgets an incident nor tells it twice.

What is saved is a `Snapshot`; what a restart makes of it is `state.restore`. A
firing alert goes on firing and no receiver hears of it anew; one that ended
meanwhile resolves at the first evaluation that can know.

What did not change is not written again, so that saving after every evaluation is
cheap. What did is written in the order of its key: ten thousand rows in any other
would each look for a place of their own.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Mapping
from operator import itemgetter
from typing import Final

from enginewatch.alerting.snapshot import RuleKey, Snapshot
from enginewatch.alerting.state import NO_ALERTS, Alerts, Source, Tracked
from enginewatch.model import Alert, Labels, Millis, freeze
from enginewatch.statefile import Fault, StateError

PART: Final = "alert_state"
MIGRATIONS: Final = (
    """
    CREATE TABLE alert_state (
        rule_group TEXT NOT NULL,
        rule_alert TEXT NOT NULL,
        rule_labels TEXT NOT NULL,
        labels TEXT NOT NULL,
        annotations TEXT NOT NULL,
        value REAL,
        active_at INTEGER NOT NULL,
        fired_at INTEGER,
        resolved_at INTEGER,
        unknown INTEGER NOT NULL,
        clear_since INTEGER,
        unknown_since INTEGER,
        sources TEXT NOT NULL,
        PRIMARY KEY (rule_group, rule_alert, rule_labels, labels)
    ) WITHOUT ROWID;
    CREATE TABLE alert_state_saved (at INTEGER NOT NULL);
    """,
)
_SELECT: Final = """
    SELECT rule_group, rule_alert, rule_labels, labels, annotations, value, active_at, fired_at,
        resolved_at, unknown, clear_since, unknown_since, sources
    FROM alert_state
"""
_REPLACE: Final = """
    INSERT OR REPLACE INTO alert_state (
        rule_group, rule_alert, rule_labels, labels, annotations, value, active_at, fired_at,
        resolved_at, unknown, clear_since, unknown_since, sources
    ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_DELETE: Final = (
    "DELETE FROM alert_state"
    " WHERE rule_group = ? AND rule_alert = ? AND rule_labels = ? AND labels = ?"
)

_Row = tuple[str | float | int | None, ...]

_Key = tuple[str, str, str, str]
_KEY_OF_ROW: Final = itemgetter(0, 1, 2, 3)
_NO_SOURCES: Final = "[]"


class AlertStateTable:
    """The saved alert states, read and written through a connection of the state file.

    `write` inside of a transaction, then `confirm` once that is committed.
    """

    def __init__(self) -> None:
        self._known: Mapping[RuleKey, Alerts] | None = None
        self._writing: Mapping[RuleKey, Alerts] = {}

    def load(self, db: sqlite3.Connection) -> Snapshot | None:
        """What was saved last, or None when nothing ever was. Raises StateError."""
        saved = db.execute("SELECT at FROM alert_state_saved").fetchone()
        rows: list[_Row] = db.execute(_SELECT).fetchall()
        if saved is None:
            return None
        alerts: dict[RuleKey, dict[Labels, Tracked]] = {}
        try:
            for row in rows:
                key, tracked = _read(row)
                alerts.setdefault(key, {})[tracked.alert.labels] = tracked
        except (ValueError, TypeError, AttributeError) as failure:
            what = f"holds an alert that can't be read: {failure}"
            raise StateError(what, Fault.CORRUPT, where=PART) from None
        self._known = alerts
        return Snapshot(saved[0], alerts)

    def forget(self) -> None:
        """The file is another: nothing is known of what it holds."""
        self._known = None

    def write(self, db: sqlite3.Connection, snapshot: Snapshot) -> None:
        """Makes the table say what `snapshot` says."""
        known = self._known
        if known is None:
            db.execute("DELETE FROM alert_state")
            known = {}
        gone: list[_Key] = []
        changed: list[_Row] = []
        for rule in known.keys() | snapshot.alerts.keys():
            before, now = known.get(rule, NO_ALERTS), snapshot.alerts.get(rule, NO_ALERTS)
            head = rule.group, rule.alert, json.dumps(rule.labels)
            gone += [(*head, _json(labels)) for labels in before.keys() - now.keys()]
            changed += [
                (*head, _json(labels), *_clocks(tracked))
                for labels, tracked in now.items()
                if not _same(before.get(labels), tracked)
            ]
        db.executemany(_DELETE, sorted(gone))
        db.executemany(_REPLACE, sorted(changed, key=_KEY_OF_ROW))
        db.execute("DELETE FROM alert_state_saved")
        db.execute("INSERT INTO alert_state_saved VALUES (?)", (snapshot.saved_at,))
        self._writing = snapshot.alerts

    def confirm(self) -> None:
        """What was written last is on the disk."""
        self._known = self._writing


def _same(known: Tracked | None, now: Tracked) -> bool:
    """Whether two would be written alike: when the sources last spoke counts here, too."""
    return known is now or (known == now and known is not None and known.sources == now.sources)


def _json(labels: Labels) -> str:
    return json.dumps(labels.plain())


def _clocks(tracked: Tracked) -> _Row:
    """The columns after the key."""
    alert, sources = tracked.alert, tracked.sources
    return (
        json.dumps(dict(alert.annotations)),
        None if math.isnan(alert.value) else alert.value,
        alert.active_at,
        alert.fired_at,
        alert.resolved_at,
        int(alert.unknown),
        tracked.clear_since,
        tracked.unknown_since,
        json.dumps([[*source, at] for source, at in sources.items()]) if sources else _NO_SOURCES,
    )


def _read(row: _Row) -> tuple[RuleKey, Tracked]:
    """Raises ValueError, TypeError or AttributeError for what was never saved like that."""
    group, name, rule_labels, labels, annotations, value, active_at, *clocks, sources = row
    fired_at, resolved_at, unknown, clear_since, unknown_since = clocks
    key = RuleKey(
        str(group), str(name), tuple((str(n), str(v)) for n, v in json.loads(str(rule_labels)))
    )
    alert = Alert(
        Labels(_texts(labels)),
        freeze(_texts(annotations)),
        math.nan if value is None else float(value),
        _time(active_at) or 0,
        _time(fired_at),
        _time(resolved_at),
        bool(unknown),
    )
    seen = {Source(str(j), str(i)): int(at) for j, i, at in json.loads(str(sources))}
    return key, Tracked(alert, _time(clear_since), _time(unknown_since), seen)


def _texts(column: object) -> Mapping[str, str]:
    return {str(name): str(text) for name, text in json.loads(str(column)).items()}


def _time(column: str | float | int | None) -> Millis | None:
    return None if column is None else int(column)
