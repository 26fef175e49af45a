"""Alert states survive a restart as they were."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginewatch.alerting.persist import MIGRATIONS, PART, AlertStateTable
from enginewatch.alerting.snapshot import RuleKey, Snapshot
from enginewatch.alerting.state import Source, Tracked
from enginewatch.model import Alert, Labels
from enginewatch.statefile import Fault, StateError, StateFile

KEY = RuleKey("group", "A", (("severity", "page"), ("verdict", "{{ $labels.x }}")))
A = Labels(alertname="A", instance="a:1", note='"é\n')


class Store:
    """A state file that has nothing but alert states."""

    def __init__(self, path: Path | str):
        self.file = StateFile(path, {PART: MIGRATIONS})
        self.table = AlertStateTable()

    def save(self, snapshot: Snapshot) -> None:
        with self.file.transaction() as db:
            self.table.write(db, snapshot)
        self.table.confirm()

    def load(self) -> Snapshot | None:
        with self.file.reading() as db:
            return self.table.load(db)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    store = Store(path)
    yield store
    store.file.close()


def tracked(labels: Labels = A) -> Tracked:
    alert = Alert(labels, {"summary": "x ✓"}, 1.5, 1000, 2000, None, unknown=True)
    return Tracked(alert, 3000, 4000, {Source("job", "a:1"): 5000})


def reopened(store: Store) -> Snapshot | None:
    store.file.close()
    other = Store(store.file.path)
    found = other.load()
    other.file.close()
    return found


def test_a_new_file_has_nothing_to_tell(store: Store) -> None:
    assert reopened(store) is None


def test_everything_comes_back(store: Store) -> None:
    saved = Snapshot(7000, {KEY: {A: tracked()}})
    store.save(saved)
    found = reopened(store)
    assert found == saved
    assert found.alerts[KEY][A].sources == {Source("job", "a:1"): 5000}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0.0, 1e300])
def test_any_value_comes_back(store: Store, value: float) -> None:
    store.save(Snapshot(0, {KEY: {A: Tracked(Alert(A, {}, value, 0))}}))
    found = reopened(store)
    assert found is not None
    assert str(found.alerts[KEY][A].alert.value) == str(value)


def test_a_save_replaces_the_one_before(store: Store) -> None:
    other = RuleKey("group", "B", ())
    b = Labels(alertname="B")
    store.save(Snapshot(1, {KEY: {A: tracked()}, other: {b: tracked(b)}}))
    store.save(Snapshot(2, {other: {b: tracked(b)}}))
    assert reopened(store) == Snapshot(2, {other: {b: tracked(b)}})
    store.load()
    store.save(Snapshot(3, {}))
    assert reopened(store) == Snapshot(3, {})


def test_a_save_that_knows_nothing_of_the_file_replaces_all_of_it(store: Store, path: Path) -> None:
    store.save(Snapshot(1, {KEY: {A: tracked()}}))
    store.file.close()
    other = Store(path)
    other.save(Snapshot(2, {}))
    assert reopened(other) == Snapshot(2, {})


def test_a_save_that_failed_is_made_good_by_the_next(store: Store) -> None:
    store.save(Snapshot(1, {KEY: {A: tracked()}}))

    def fail() -> None:
        with store.file.transaction() as db:
            store.table.write(db, Snapshot(2, {}))
            db.execute("SELECT no_such_function()")

    with pytest.raises(StateError, match="no such function"):
        fail()
    assert store.load() == Snapshot(1, {KEY: {A: tracked()}})
    store.save(Snapshot(3, {}))
    assert reopened(store) == Snapshot(3, {})


def test_a_row_that_makes_no_sense_says_so(store: Store) -> None:
    store.save(Snapshot(1, {KEY: {A: tracked()}}))
    with store.file.transaction() as db:
        db.execute("UPDATE alert_state SET annotations = '[1]'")
    with pytest.raises(StateError, match="can't be read") as caught:
        store.load()
    assert caught.value.fault is Fault.CORRUPT


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
    store = Store(":memory:")
    for saved in saves:
        store.save(saved)
        assert store.load() == saved
    store.file.close()
