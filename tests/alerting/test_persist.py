"""Alert states survive a restart at any moment; a database that can't be used says why."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginewatch.alerting.errors import AlertStateError
from enginewatch.alerting.persist import AlertStateStore
from enginewatch.alerting.snapshot import RuleKey, Snapshot
from enginewatch.alerting.state import Source, Tracked
from enginewatch.model import Alert, Labels

KEY = RuleKey("group", "A", (("severity", "page"), ("verdict", "{{ $labels.x }}")))
A = Labels(alertname="A", instance="a:1", note='"é\n')


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def tracked(labels: Labels = A, **given: object) -> Tracked:
    alert = Alert(labels, {"summary": "x ✓"}, 1.5, 1000, 2000, None, unknown=True)
    return Tracked(alert, 3000, 4000, {Source("job", "a:1"): 5000})


def reopened(path: Path) -> Snapshot | None:
    with AlertStateStore(path) as store:
        return store.load()


def test_a_new_file_has_nothing_to_tell(path: Path) -> None:
    assert reopened(path) is None


def test_everything_comes_back(path: Path) -> None:
    saved = Snapshot(7000, {KEY: {A: tracked()}})
    with AlertStateStore(path) as store:
        store.save(saved)
    found = reopened(path)
    assert found == saved
    assert found.alerts[KEY][A].sources == {Source("job", "a:1"): 5000}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0.0, 1e300])
def test_any_value_comes_back(path: Path, value: float) -> None:
    alert = Alert(A, {}, value, 0)
    with AlertStateStore(path) as store:
        store.save(Snapshot(0, {KEY: {A: Tracked(alert)}}))
    found = reopened(path)
    assert found is not None
    assert str(found.alerts[KEY][A].alert.value) == str(value)


def test_a_save_replaces_the_one_before(path: Path) -> None:
    other = RuleKey("group", "B", ())
    b = Labels(alertname="B")
    with AlertStateStore(path) as store:
        store.save(Snapshot(1, {KEY: {A: tracked()}, other: {b: tracked(b)}}))
        store.save(Snapshot(2, {other: {b: tracked(b)}}))
    assert reopened(path) == Snapshot(2, {other: {b: tracked(b)}})
    with AlertStateStore(path) as store:
        store.load()
        store.save(Snapshot(3, {}))
    assert reopened(path) == Snapshot(3, {})


def test_other_tables_of_the_file_are_left_alone(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE outbox (x)")
        db.execute("INSERT INTO outbox VALUES (1)")
    db.close()
    with AlertStateStore(path) as store:
        store.save(Snapshot(1, {KEY: {A: tracked()}}))
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT x FROM outbox").fetchall() == [(1,)]
    db.close()


def test_a_crash_inside_a_save_leaves_the_save_before(path: Path) -> None:
    store = AlertStateStore(path)
    store.save(Snapshot(1, {KEY: {A: tracked()}}))
    store._db.execute(
        "CREATE TEMP TRIGGER fail BEFORE INSERT ON alert_state_saved"
        " BEGIN SELECT RAISE(ABORT, 'no'); END"
    )
    with pytest.raises(AlertStateError, match="no"):
        store.save(Snapshot(2, {}))
    store.close()
    assert reopened(path) == Snapshot(1, {KEY: {A: tracked()}})


def corrupt(path: Path) -> None:
    path.write_bytes(b"this is no database" * 100)


def newer(path: Path) -> None:
    with AlertStateStore(path):
        pass
    with sqlite3.connect(path) as db:
        db.execute("INSERT INTO alert_state_schema VALUES (99)")
    db.close()


def folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("spoil", "what", "hint"),
    [
        (corrupt, "file is not a database", "move the file away"),
        (newer, "version 99, and this program knows 1", "run that, or name another file"),
        (folder, "unable to open database file", "must be writable"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(
    path: Path, spoil: object, what: str, hint: str
) -> None:
    assert callable(spoil)
    spoil(path)
    with pytest.raises(AlertStateError) as caught:
        AlertStateStore(path)
    assert what in caught.value.what
    assert hint in caught.value.hint
    assert caught.value.where == str(path)


def test_a_row_that_makes_no_sense_says_so(path: Path) -> None:
    with AlertStateStore(path) as store:
        store.save(Snapshot(1, {KEY: {A: tracked()}}))
    with sqlite3.connect(path) as db:
        db.execute("UPDATE alert_state SET annotations = '[1]'")
    db.close()
    with AlertStateStore(path) as store, pytest.raises(AlertStateError, match="can't be read"):
        store.load()


@pytest.fixture
def locked(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AlertStateStore]:
    monkeypatch.setattr("enginewatch.alerting.persist._WAIT_SECONDS", 0.01)
    store = AlertStateStore(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    yield store
    other.close()
    store.close()


def test_a_locked_file_says_who_it_may_be(locked: AlertStateStore) -> None:
    with pytest.raises(AlertStateError) as caught:
        locked.save(Snapshot(1, {}))
    assert "database is locked" in caught.value.what
    assert "another enginewatch" in caught.value.hint


def test_a_save_that_failed_is_made_good_by_the_next(path: Path) -> None:
    store = AlertStateStore(path)
    other = sqlite3.connect(path, isolation_level=None)
    store._db.execute("PRAGMA busy_timeout = 10")
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(AlertStateError):
        store.save(Snapshot(1, {KEY: {A: tracked()}}))
    other.execute("ROLLBACK")
    other.close()
    store.save(Snapshot(2, {KEY: {A: tracked()}}))
    store.close()
    assert reopened(path) == Snapshot(2, {KEY: {A: tracked()}})


TIMES = st.none() | st.integers(0, 2**53)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=5)


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    alerts: dict[RuleKey, dict[Labels, Tracked]] = {}
    for name in draw(st.sets(TEXTS, max_size=2)):
        of_rule = alerts.setdefault(RuleKey(draw(TEXTS), name, ((draw(TEXTS), draw(TEXTS)),)), {})
        for _ in range(draw(st.integers(1, 2))):
            labels = Labels(draw(st.dictionaries(TEXTS, TEXTS, max_size=2)))
            alert = Alert(
                labels,
                draw(st.dictionaries(TEXTS, TEXTS, max_size=2)),
                draw(st.floats(allow_nan=False)),
                draw(st.integers(0, 2**53)),
                draw(TIMES),
                draw(TIMES),
                draw(st.booleans()),
            )
            of_rule[labels] = Tracked(alert, draw(TIMES), draw(TIMES))
    return Snapshot(draw(st.integers(0, 2**53)), alerts)


@given(st.lists(snapshots(), min_size=1, max_size=3))
@settings(deadline=None, max_examples=40)
def test_the_last_of_any_saves_comes_back(saves: list[Snapshot]) -> None:
    with AlertStateStore(":memory:") as store:
        for saved in saves:
            store.save(saved)
            assert store.load() == saved
