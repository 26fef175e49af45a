"""Undo files: written before, done once or twice, readable after any crash."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from enginechaos.actions import Command, End, EndsWithRun, Remove, Restore, Signal, action_of
from enginechaos.errors import UndoError
from enginechaos.processes import Process, process
from enginechaos.undo import UndoLog, file_name, owes, settle_all


@pytest.fixture
def sleeper() -> Iterator[Process]:
    running = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    found = process(running.pid)
    assert found is not None
    yield found
    running.kill()
    running.wait(5)


def test_what_is_promised_is_owed_until_it_is_done_and_undone_backwards(tmp_path: Path) -> None:
    log = UndoLog(tmp_path / file_name())
    log.promise("one", [EndsWithRun("a"), EndsWithRun("b")])
    log.promise("two", [EndsWithRun("c")])
    assert owes(tmp_path)
    assert settle_all(tmp_path) == [
        "two: c ended with the run",
        "one: b ended with the run",
        "one: a ended with the run",
    ]
    assert not owes(tmp_path)
    assert settle_all(tmp_path) == []


def test_workers_have_files_of_their_own_and_all_are_settled(tmp_path: Path) -> None:
    for worker in ("gw0", "gw1"):
        UndoLog(tmp_path / file_name(worker)).promise(worker, [EndsWithRun("x")])
    assert settle_all(tmp_path) == ["gw0: x ended with the run", "gw1: x ended with the run"]


def test_one_failure_does_not_keep_the_others_from_being_undone(tmp_path: Path) -> None:
    log = UndoLog(tmp_path / file_name())
    log.promise("bad", [EndsWithRun("first"), Command(("false",)), EndsWithRun("last")])
    with pytest.raises(UndoError, match="bad: false: exit code 1"):
        settle_all(tmp_path)
    (left,) = UndoLog.read(log.path).owed
    assert isinstance(left.action, Command)


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_line_that_a_crash_cut_off_counts_for_nothing(tmp_path: Path, cut: int) -> None:
    log = UndoLog(tmp_path / file_name())
    log.promise("whole", [EndsWithRun("a")])
    before = log.path.read_bytes()
    log.promise("torn", [EndsWithRun("b")])
    log.path.write_bytes(log.path.read_bytes()[: len(before) + cut])
    again = UndoLog.read(log.path)
    assert [owed.fault for owed in again.owed] == ["whole"]
    list(again.settle())
    assert not UndoLog.read(log.path).owed


def test_an_undo_file_that_makes_no_sense_is_an_error_and_stands_in_the_way(tmp_path: Path) -> None:
    path = tmp_path / file_name()
    path.write_text("nonsense\n")
    with pytest.raises(UndoError, match=r"undo.jsonl:1: not a line of JSON"):
        UndoLog.read(path)
    path.write_text('{"id": 1, "kind": "reboot", "fault": "x"}\n')
    with pytest.raises(UndoError, match="no action is called 'reboot'"):
        UndoLog.read(path)
    assert owes(tmp_path)


def test_a_stopped_process_goes_on_and_a_gone_one_is_no_error(sleeper: Process) -> None:
    action = Signal(sleeper, "CONT")
    action.actor.signal(sleeper, "STOP")
    assert action.do().startswith("sent CONT to")
    assert action.actor.state(sleeper) in "RSD"
    another = Process(sleeper.pid, sleeper.started + 1, 0, "somebody else")
    assert Signal(another, "KILL").do() == f"{another} is gone already"
    assert action.actor.state(sleeper) in "RSD"


def test_a_stopped_process_is_ended(sleeper: Process) -> None:
    end = End(sleeper)
    end.actor.signal(sleeper, "STOP")
    assert end.do().startswith("ended")
    assert end.do().endswith("had ended already")


def test_files_and_folders_come_back_as_they_were(tmp_path: Path) -> None:
    engine = tmp_path / "engine"
    engine.mkdir()
    (engine / "rank0.engine").write_text("good")
    action = Restore.of(engine, tmp_path / "backups")
    (engine / "rank0.engine").write_text("bad")
    (engine / "more").write_text("x")
    for _ in range(2):
        action.do()
        assert [each.name for each in engine.iterdir()] == ["rank0.engine"]
        assert (engine / "rank0.engine").read_text() == "good"
    made = tmp_path / "made"
    made.touch()
    assert Remove(made).do() == f"removed {made}"
    assert Remove(made).do() == f"{made} is not there"


def test_commands_may_find_nothing_left() -> None:
    gone = Command(("sh", "-c", "echo Cannot find device >&2; exit 2"), absent="Cannot find device")
    assert gone.do().startswith("nothing left for sh")


@pytest.mark.parametrize(
    "action",
    [
        Signal(Process(1, 2, 0, "x"), "CONT"),
        End(Process(1, 2, 0, "x")),
        Restore(Path("/a"), Path("/b")),
        Remove(Path("/a")),
        Command(("a", "b"), absent="c"),
        EndsWithRun("x"),
    ],
)
def test_actions_survive_their_way_through_the_file(action: object) -> None:
    found = {"kind": action.kind, **action.as_json()}  # type: ignore[attr-defined]
    assert action_of(found) == action
