"""What becomes of a file that is full, read-only, locked, broken, newer or gone."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from enginewatch import statefile
from enginewatch.statefile import Fault, StateError, StateFile

PARTS = {"part": ("CREATE TABLE thing (x); CREATE INDEX thing_by_x ON thing (x)",)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sub" / "state.db"


@pytest.fixture
def file(path: Path) -> Iterator[StateFile]:
    file = StateFile(path, PARTS)
    yield file
    file.close()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statefile, "WAIT_SECONDS", 0.01)


def put(file: StateFile, x: object) -> None:
    with file.transaction() as db:
        db.execute("INSERT INTO thing VALUES (?)", (x,))


def things(file: StateFile) -> list[object]:
    with file.reading() as db:
        return [x for (x,) in db.execute("SELECT x FROM thing")]


def fault(file: StateFile) -> StateError:
    with pytest.raises(StateError) as caught:
        put(file, 9)
    return caught.value


def test_folder_and_tables_are_made(file: StateFile, path: Path) -> None:
    put(file, 1)
    file.close()
    assert things(StateFile(path, PARTS)) == [1]


def test_a_transaction_happens_wholly_or_not_at_all(file: StateFile) -> None:
    def fail() -> None:
        with file.transaction() as db:
            db.execute("INSERT INTO thing VALUES (1)")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert things(file) == []
    put(file, 2)
    assert things(file) == [2]


def test_a_part_that_grew_is_migrated_and_others_are_left_alone(
    file: StateFile, path: Path
) -> None:
    put(file, 1)
    file.close()
    parts = {"part": (*PARTS["part"], "ALTER TABLE thing ADD y DEFAULT 7"), "new": ("SELECT 1",)}
    grown = StateFile(path, parts)
    with grown.reading() as db:
        assert db.execute("SELECT x, y FROM thing").fetchall() == [(1, 7)]
    grown.close()
    old = fault(StateFile(path, PARTS))
    assert old.fault is Fault.NEWER
    assert "is of version 2 (part), and this program knows 1" in str(old)


def test_another_process_has_to_wait_until_the_first_has_ended(file: StateFile, path: Path) -> None:
    put(file, 1)
    other = StateFile(path, PARTS)
    failure = fault(other)
    assert failure.fault is Fault.LOCKED
    assert "another enginewatch" in failure.hint
    file.close()
    put(other, 2)
    assert things(other) == [1, 2]
    other.close()


def test_a_full_disk_says_so_and_is_of_use_again_when_it_is_not(file: StateFile) -> None:
    put(file, 1)
    with file.reading() as db:
        (pages,) = db.execute("PRAGMA page_count").fetchone()
        db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StateError) as caught:
        put(file, "x" * 100_000)
    assert caught.value.fault is Fault.FULL
    assert "the disk is full" in str(caught.value)
    with file.reading() as db:
        db.execute("PRAGMA max_page_count = 1000000")
    put(file, 2)
    assert things(file) == [1, 2]


READ_ONLY = """
import os, sys
from enginewatch.statefile import StateError, StateFile
file = StateFile(sys.argv[1], {"part": ("CREATE TABLE thing (x)",)})
if os.fork() == 0:
    with file.transaction() as db:
        db.execute("INSERT INTO thing VALUES (1)")
    os._exit(0)  # as a crash leaves it: what was written last is in the log beside the file
os.wait()
folder = os.path.dirname(sys.argv[1])
for name in os.listdir(folder):
    os.chmod(os.path.join(folder, name), 0o444)
os.chmod(folder, 0o555)
if os.geteuid() == 0:
    os.setuid(65534)  # to root nothing is read-only
try:
    with file.transaction() as db:
        pass
except StateError as failure:
    print(failure.fault, failure.hint)
with file.reading() as db:
    print(db.execute("SELECT x FROM thing").fetchall())
"""


def test_a_read_only_file_can_be_read_and_says_why_it_is_not_written() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        inner = Path(folder) / "state"
        inner.mkdir()
        said = subprocess.run(
            [sys.executable, "-c", READ_ONLY, str(inner / "state.db")],
            capture_output=True,
            text=True,
            check=False,
        )
        inner.chmod(0o755)
    assert said.stdout.splitlines() == [
        "read_only the file and its folder must be writable",
        "[(1,)]",
    ], said.stderr


def test_a_folder_in_its_place_says_what_is_wrong(path: Path) -> None:
    path.mkdir(parents=True)
    assert fault(StateFile(path, PARTS)).fault is Fault.READ_ONLY


def test_what_is_no_database_is_moved_aside(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.parent.mkdir()
    fresh = []
    for _ in range(2):
        path.write_bytes(b"this is no database" * 100)
        file = StateFile(path, PARTS, fresh=lambda: fresh.append(1))
        put(file, 1)
        assert things(file) == [1]
        file.close()
    aside = sorted(p.name for p in path.parent.iterdir() if "broken" in p.name)
    assert aside == ["state.db.broken-1", "state.db.broken-2"]
    assert (path.parent / aside[0]).read_bytes().startswith(b"this is no database")
    assert "is moved to state.db.broken-1" in caplog.text
    assert len(fresh) == 2


def test_a_file_that_breaks_while_it_is_used_is_moved_aside(file: StateFile, path: Path) -> None:
    for number in range(500):
        put(file, f"{number}" * 50)
    file.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    put(file, 2)
    assert things(file) == [2]
    assert (path.parent / "state.db.broken-1").exists()


def test_a_file_that_was_deleted_is_begun_anew(
    file: StateFile, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(file, 1)
    for each in path.parent.iterdir():
        each.unlink()
    put(file, 2)
    assert things(file) == [2]
    assert "is gone" in caplog.text
