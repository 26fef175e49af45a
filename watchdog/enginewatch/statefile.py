"""The SQLite file of what must survive the process: alert states, groups, what is on its way.

One connection, one writer, write-ahead log, and no other process beside it. A
transaction is on the disk when it ends, so neither SIGKILL nor a power cut takes
back what was told to be safe. What each part keeps in its tables is its own affair.

What can go wrong with a file, and what is made of it:

- it can't be written (full, read-only, locked): the error says so each time, and
  each next transaction tries anew, with another connection where need be; what
  is in a read-only one can be read;
- it was deleted: the next transaction begins a new one;
- it is no database, or a broken one: it is moved aside, its name kept, and a new
  one takes its place;
- it is from a newer version: nothing is touched.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

from enginewatch.errors import EnginewatchError

_LOG: Final = logging.getLogger(__name__)

WAIT_SECONDS: Final = 2.0
"""How long another process's transaction is waited for."""

_SCHEMA: Final = """
    CREATE TABLE IF NOT EXISTS schema_version (part TEXT PRIMARY KEY, version INTEGER NOT NULL)
"""

Migrations = Sequence[str]
"""Applied in order, each once, semicolons between statements. A released one is never edited."""


class Fault(StrEnum):
    """Why the state can't be kept; a label of `enginewatch_state_write_failures_total`."""

    FULL = "disk_full"
    READ_ONLY = "read_only"
    LOCKED = "locked"
    CORRUPT = "corrupt"
    NEWER = "newer_version"
    OTHER = "other"


_FAULTS: Final = {
    "SQLITE_FULL": Fault.FULL,
    "SQLITE_BUSY": Fault.LOCKED,
    "SQLITE_LOCKED": Fault.LOCKED,
    "SQLITE_READONLY": Fault.READ_ONLY,
    "SQLITE_CANTOPEN": Fault.READ_ONLY,
    "SQLITE_PERM": Fault.READ_ONLY,
    "SQLITE_AUTH": Fault.READ_ONLY,
    "SQLITE_CORRUPT": Fault.CORRUPT,
    "SQLITE_NOTADB": Fault.CORRUPT,
}
_HINTS: Final = {
    Fault.FULL: "the disk is full",
    Fault.READ_ONLY: "the file and its folder must be writable",
    Fault.LOCKED: "another program, perhaps another enginewatch, is using it",
    Fault.CORRUPT: "it will be moved aside",
    Fault.NEWER: "run the newer version, or name another folder in storage.path",
}


class StateError(EnginewatchError):
    """The state can't be read or written.

    The daemon goes on without it, from memory: what is lost is what a restart
    would have remembered.
    """

    def __init__(self, what: str, fault: Fault, *, where: str):
        super().__init__(what, where=where, hint=_HINTS.get(fault, ""))
        self.fault = fault


def connect(path: str) -> sqlite3.Connection:
    """A connection that any one thread at a time may use; transactions are begun by hand."""
    return sqlite3.connect(
        path, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False
    )


class StateFile:
    """One file and the parts that have tables in it. Used by one thread at a time.

    `fresh` is called when the file is another than it was (its first opening
    aside): what parts believe to be written is not.
    """

    def __init__(
        self,
        path: Path | str,
        parts: Mapping[str, Migrations],
        *,
        fresh: Callable[[], None] = lambda: None,
        connect: Callable[[str], sqlite3.Connection] = connect,
    ):
        self.path: Final = str(path)
        self._parts: Final = parts
        self._fresh: Final = fresh
        self._connect: Final = connect
        self._db: sqlite3.Connection | None = None
        self._inode: int | None = None

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The file, to read from; a copy of it where it can't be written. Raises StateError."""
        try:
            with self._errors():
                db = self._opened()
        except StateError as failure:
            if failure.fault is not Fault.READ_ONLY or not Path(self.path).is_file():
                raise
            with self._errors(), _copied(self.path, self._connect) as copy:
                yield copy
            return
        with self._errors():
            yield db

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All of what happens inside, or, after StateError, nothing of it."""
        with self._errors():
            db = self._opened()
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                # A full disk has rolled back already.
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def set_aside(self, reason: str) -> None:
        """Moves the file away, for somebody to look at, so that the next opening makes another."""
        self.close()
        aside = _free_name(Path(self.path))
        _LOG.error("%s is moved to %s: %s", self.path, aside.name, reason)
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                Path(self.path + suffix).rename(f"{aside}{suffix}")
        self._fresh()

    def _opened(self) -> sqlite3.Connection:
        if self._db is not None and self._inode != _inode(self.path):
            _LOG.error("%s is gone; another takes its place", self.path)
            self.close()
            self._fresh()
        if self._db is None:
            try:
                self._db = self._open()
            except sqlite3.DatabaseError as failure:
                if fault_of(failure) is not Fault.CORRUPT:
                    raise
                self.set_aside(str(failure))
                self._db = self._open()
            self._inode = _inode(self.path)
        return self._db

    def _open(self) -> sqlite3.Connection:
        with contextlib.suppress(OSError):  # what is wrong with it, SQLite will say
            Path(self.path).parent.mkdir(parents=True, exist_ok=True)
        db = self._connect(self.path)
        try:
            db.execute("PRAGMA locking_mode = EXCLUSIVE")
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            _check(db)
            self._migrate(db)
        except BaseException:
            db.close()
            raise
        return db

    def _migrate(self, db: sqlite3.Connection) -> None:
        # Readers of a read-only file find all as it should be, and write nothing.
        known = {}
        if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'schema_version'").fetchone():
            known = dict(db.execute("SELECT part, version FROM schema_version"))
        for part, migrations in self._parts.items():
            version = known.get(part, 0)
            if version > len(migrations):
                raise StateError(
                    f"is of version {version} ({part}), and this program knows {len(migrations)}",
                    Fault.NEWER,
                    where=self.path,
                )
            if version < len(migrations):
                _apply(db, part, migrations[version:], len(migrations))

    def _is_writable(self) -> bool:
        path = Path(self.path)
        return all(os.access(each, os.W_OK) for each in (path.parent, path) if each.exists())

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as failure:
            fault = fault_of(failure)
            if fault is Fault.OTHER and not self._is_writable():
                fault = Fault.READ_ONLY  # which SQLite's log only knows as an I/O error
            if fault not in (Fault.FULL, Fault.LOCKED):
                # The next one begins with another connection: this one may be of no more use.
                self.close()
            if fault is Fault.CORRUPT:
                self.set_aside(str(failure))
            raise StateError(f"can't be used: {failure}", fault, where=self.path) from None
        except OSError as failure:
            reason = failure.strerror or str(failure)
            raise StateError(f"can't be used: {reason}", Fault.OTHER, where=self.path) from None


def _apply(db: sqlite3.Connection, part: str, migrations: Migrations, version: int) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        db.execute(_SCHEMA)
        for migration in migrations:
            for statement in migration.split(";"):
                db.execute(statement)
        db.execute("INSERT OR REPLACE INTO schema_version VALUES (?, ?)", (part, version))
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def fault_of(failure: sqlite3.Error) -> Fault:
    """The kind of an error of SQLite's, from its extended code's name."""
    name = getattr(failure, "sqlite_errorname", "")
    return next((fault for code, fault in _FAULTS.items() if name.startswith(code)), Fault.OTHER)


def _check(db: sqlite3.Connection) -> None:
    (found,) = db.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        failure = sqlite3.DatabaseError(found)
        failure.sqlite_errorname = "SQLITE_CORRUPT"
        raise failure


@contextlib.contextmanager
def _copied(
    path: str, connect: Callable[[str], sqlite3.Connection]
) -> Iterator[sqlite3.Connection]:
    """A copy of a file that can't be opened in its place: SQLite's log asks for a writable one."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "state.db"
        for suffix in ("", "-wal"):
            if Path(path + suffix).exists():
                shutil.copyfile(path + suffix, f"{copy}{suffix}")
        with contextlib.closing(connect(str(copy))) as db:
            yield db


def _inode(path: str) -> int | None:
    try:
        return Path(path).stat().st_ino
    except OSError:
        return None


def _free_name(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.broken-{number}")).exists():
        number += 1
    return aside
