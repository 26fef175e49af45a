"""Alert states in SQLite, so that a restart neither forgets an incident nor tells it twice.

What is saved is a `Snapshot`; what a restart makes of it is `state.restore`. A
firing alert goes on firing and no receiver hears of it anew; one that ended
meanwhile resolves at the first evaluation that can know.

Write-ahead log, one writer, other tables in the same file left alone. A save is
one transaction: a crash leaves the state of the save before. Rows that did not
change are not written again, so that saving after every evaluation is cheap.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Final, Self

from enginewatch.alerting.errors import AlertStateError
from enginewatch.alerting.snapshot import RuleKey, Snapshot
from enginewatch.alerting.state import Source, Tracked
from enginewatch.model import Alert, Labels, Millis, freeze

_MIGRATIONS: Final = (
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
"""Applied in order, each once; `alert_state_schema` says which. A released one is never edited."""

_SCHEMA: Final = "CREATE TABLE IF NOT EXISTS alert_state_schema (version INTEGER PRIMARY KEY)"
_KEY_COLUMNS: Final = 4
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
_WAIT_SECONDS: Final = 2.0

_Row = tuple[str | float | int | None, ...]


class AlertStateStore:
    """The saved alert states in one file. Its methods may be called from any thread."""

    def __init__(self, path: str | Path):
        """Opens the file, or makes it. Raises AlertStateError when it can't be used."""
        self.path: Final = str(path)
        self._lock: Final = Lock()
        self._written: dict[_Row, _Row] = {}
        with self._errors():
            self._db: Final = sqlite3.connect(
                self.path, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False
            )
        try:
            with self._errors():
                self._prepare()
        except BaseException:
            self._db.close()
            raise

    def load(self) -> Snapshot | None:
        """What was saved last, or None when nothing ever was. Raises AlertStateError."""
        with self._lock, self._errors():
            saved = self._db.execute("SELECT at FROM alert_state_saved").fetchone()
            rows: list[_Row] = self._db.execute(_SELECT).fetchall()
        if saved is None:
            return None
        alerts: dict[RuleKey, dict[Labels, Tracked]] = {}
        try:
            for row in rows:
                key, tracked = _read(row)
                alerts.setdefault(key, {})[tracked.alert.labels] = tracked
        except (ValueError, TypeError, AttributeError) as failure:
            raise AlertStateError(
                f"holds an alert that can't be read: {failure}",
                where=self.path,
                hint="move the file away to start without saved alerts",
            ) from None
        self._written = {row[:_KEY_COLUMNS]: row for row in rows}
        return Snapshot(saved[0], alerts)

    def save(self, snapshot: Snapshot) -> None:
        """Makes the file say what `snapshot` says. Raises AlertStateError."""
        rows = {row[:_KEY_COLUMNS]: row for row in _rows(snapshot)}
        with self._lock:
            changed = [row for key, row in rows.items() if self._written.get(key) != row]
            gone = [key for key in self._written if key not in rows]
            with self._errors(), self._transaction():
                self._db.executemany(_DELETE, gone)
                self._db.executemany(_REPLACE, changed)
                self._db.execute("DELETE FROM alert_state_saved")
                self._db.execute("INSERT INTO alert_state_saved VALUES (?)", (snapshot.saved_at,))
            self._written = rows

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _prepare(self) -> None:
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        (found,) = self._db.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise sqlite3.DatabaseError(found)
        with self._transaction():
            self._db.execute(_SCHEMA)
            (version,) = self._db.execute(
                "SELECT coalesce(max(version), 0) FROM alert_state_schema"
            ).fetchone()
            if version > len(_MIGRATIONS):
                raise AlertStateError(
                    f"has alert states of version {version}, and this program knows"
                    f" {len(_MIGRATIONS)}",
                    where=self.path,
                    hint="it was written by a newer enginewatch: run that, or name another file",
                )
            for number, migration in enumerate(_MIGRATIONS[version:], version + 1):
                for statement in migration.split(";"):
                    self._db.execute(statement)
                self._db.execute("INSERT INTO alert_state_schema VALUES (?)", (number,))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            # A full disk has rolled back already.
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as failure:
            raise AlertStateError(
                f"alert states can't be kept here: {failure}", where=self.path, hint=_hint(failure)
            ) from None


def _hint(failure: sqlite3.Error) -> str:
    code = getattr(failure, "sqlite_errorname", "")
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return "another program, perhaps another enginewatch, is writing to it"
    if code.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
        return "the file and its folder must be writable"
    if code.startswith("SQLITE_FULL"):
        return "the disk is full"
    return "move the file away to start without saved alerts"


def _rows(snapshot: Snapshot) -> Iterator[_Row]:
    for key, alerts in snapshot.alerts.items():
        rule_labels = json.dumps(key.labels)
        for tracked in alerts.values():
            alert = tracked.alert
            yield (
                key.group,
                key.alert,
                rule_labels,
                _json(alert.labels),
                _json(alert.annotations),
                None if math.isnan(alert.value) else alert.value,
                alert.active_at,
                alert.fired_at,
                alert.resolved_at,
                int(alert.unknown),
                tracked.clear_since,
                tracked.unknown_since,
                json.dumps([[*source, at] for source, at in tracked.sources.items()]),
            )


def _json(labels: Mapping[str, str]) -> str:
    return json.dumps(dict(labels))


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
