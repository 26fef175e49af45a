"""What looks at the process table say: states, stillness, restarts, orphans, alike processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginewatch.collect.process_identity import Identity
from enginewatch.collect.process_table import Stat, State, parse_stat
from enginewatch.collect.process_track import Defaults, Seen, Tracks, follow, samples
from enginewatch.model import METRIC_NAME, Labels

DEFAULTS = Defaults("node1", "rest")
TARGET = Labels(job="j", instance="a:8000", deployment="chat", runtime="ignored")


def process(pid: int, state: State = State.RUNNING, cpu: float = 0.0, **changes: Any) -> Seen:
    given = {"rank": f"TP{pid}", "role": "worker", "ppid": 1, "start": pid, **changes}
    stat = Stat(pid, given["ppid"], "x", state, cpu, given["start"], 4096)
    identity = Identity("vllm", given["role"], "VLLM::Worker", given["rank"])
    return Seen(stat, identity, changes.get("target", TARGET), bool(changes.get("adopted")), 5.0)


class Machine:
    """Looks, a second apart unless told otherwise."""

    def __init__(self) -> None:
        self.tracks = Tracks()
        self.now = 0

    def look(self, *seen: Seen, after: int = 1000) -> dict[str, dict[str, float]]:
        """Values by name, then by rank (and state)."""
        self.now += after
        self.tracks = follow(self.tracks, seen, self.now, DEFAULTS)
        found: dict[str, dict[str, float]] = {}
        for labels, value, _ in samples(self.tracks, seen, self.now):
            name = labels.name.removeprefix("enginewatch_process_")
            key = labels.get("rank", "") + (f" {labels['state']}" if "state" in labels else "")
            assert key not in found.setdefault(name, {})
            found[name][key] = value
        return found


def test_a_process_says_all_of_itself_under_its_targets_labels() -> None:
    (first, *_) = tracks_of([process(7, State.STOPPED, cpu=1.5)])
    assert dict(first.without(METRIC_NAME, "state")) == {
        "job": "j",
        "instance": "a:8000",
        "deployment": "chat",
        "host": "node1",
        "runtime": "vllm",
        "role": "worker",
        "title": "VLLM::Worker",
        "rank": "TP7",
    }
    found = Machine().look(process(7, State.STOPPED, cpu=1.5))
    assert {state for state, value in found["state"].items() if value} == {"TP7 stopped"}
    assert len(found["state"]) == len(State)
    assert found["cpu_seconds_total"] == {"TP7": 1.5}
    assert found["resident_memory_bytes"] == {"TP7": 4096}
    assert found["start_time_seconds"] == {"TP7": 5.0}
    assert found["info"] == {"TP7": 1}


def tracks_of(seen: Sequence[Seen]) -> list[Labels]:
    tracks = follow(Tracks(), seen, 0, DEFAULTS)
    return [each.labels for each in samples(tracks, seen, 0)]


def test_without_a_target_a_process_is_its_hosts() -> None:
    (first, *_) = tracks_of([process(7, target=None)])
    own = {name: first[name] for name in ("job", "instance", "deployment")}
    assert own == {"job": "processes", "instance": "node1", "deployment": "rest"}


def test_still_is_in_one_state_and_without_the_processor() -> None:
    machine = Machine()

    def still(state: State, cpu: float) -> float:
        return machine.look(process(1, state, cpu))["still_seconds"]["TP1"]

    seen = [
        still(State.STOPPED, 1.0),
        still(State.STOPPED, 1.0),
        still(State.STOPPED, 1.0),
        still(State.STOPPED, 1.01),  # let go and stopped again between two looks
        still(State.STOPPED, 1.01),
        still(State.SLEEPING, 1.01),
    ]
    assert seen == [0, 1, 2, 0, 1, 0]


def test_a_process_in_the_place_of_another_is_a_start() -> None:
    machine = Machine()
    other = process(2)
    assert machine.look(process(1), other)["starts_total"] == {"TP1": 1, "TP2": 1}
    assert machine.look(other)["starts_total"] == {"TP2": 1}
    again = process(9, rank="TP1", start=50)
    assert machine.look(again, other)["starts_total"] == {"TP1": 2, "TP2": 1}
    assert machine.look(again, other)["starts_total"] == {"TP1": 2, "TP2": 1}


def test_a_pid_used_again_is_another_process() -> None:
    machine = Machine()
    machine.look(process(1, State.SLEEPING, 3.0))
    found = machine.look(process(1, State.SLEEPING, 3.0, start=99))
    assert (found["still_seconds"]["TP1"], found["starts_total"]["TP1"]) == (0, 2)


@pytest.mark.parametrize(
    ("before", "after", "orphaned"),
    [
        ({"ppid": 10}, {"ppid": 10}, 0),
        ({"ppid": 10}, {"ppid": 1}, 1),
        ({"ppid": 1, "adopted": True}, {"ppid": 1, "adopted": True}, 1),
        ({"ppid": 1}, {"ppid": 1}, 0),  # the server may be process 1 of its container
        ({"ppid": 10, "role": "server"}, {"ppid": 1, "role": "server", "adopted": True}, 0),
    ],
)
def test_orphans_have_lost_the_parent_they_had(
    before: dict[str, Any], after: dict[str, Any], orphaned: float
) -> None:
    machine = Machine()
    machine.look(process(5, **before))
    assert machine.look(process(5, **after))["orphaned"] == {"TP5": orphaned}


def test_processes_that_are_alike_are_told_apart_by_age() -> None:
    machine = Machine()
    old, new = process(8, rank="", start=10), process(3, rank="", start=20)
    assert set(machine.look(new, old)["cpu_seconds_total"]) == {"0", "1"}
    own = {
        each.stat.pid: labels["rank"]
        for each, labels in zip([old, new], placed([new, old]), strict=True)
    }
    assert own == {8: "0", 3: "1"}


def placed(seen: list[Seen]) -> list[Labels]:
    return list(follow(Tracks(), seen, 0, DEFAULTS).places.values())


def test_one_of_two_alike_goes_and_the_other_is_called_otherwise() -> None:
    machine = Machine()
    first, second = (process(pid, rank="", role="engine", target=None) for pid in (1, 2))
    machine.look(first, second)
    assert machine.look(second)["starts_total"] == {"": 1}
    assert machine.look(second, process(3, rank="", role="engine", target=None))[
        "starts_total"
    ] == {"0": 1, "1": 2}


LOOKS = st.lists(
    st.lists(
        st.tuples(st.integers(1, 6), st.sampled_from(["", "TP0"]), st.sampled_from([None, TARGET])),
        unique_by=lambda each: each[0],
        max_size=5,
    ),
    max_size=6,
)


@settings(deadline=None)
@given(LOOKS)
def test_whatever_comes_and_goes_is_told_of(looks: list[list[tuple[int, str, Any]]]) -> None:
    """Ranks get their names late, engines become targets late, and processes end at any time."""
    machine = Machine()
    for look in looks:
        seen = [process(pid, rank=rank, target=target) for pid, rank, target in look]
        tracks = machine.tracks = follow(machine.tracks, seen, machine.now, DEFAULTS)
        told = [each for each in samples(tracks, seen, machine.now) if "starts" in each.labels.name]
        assert len({each.labels for each in told}) == len(seen)
        assert all(each.value >= 1 for each in told)


@pytest.mark.parametrize(
    ("name", "state"),
    [("(a) b", State.DISK_SLEEP), ("x", State.DISK_SLEEP), ("))", State.DISK_SLEEP)],
)
def test_a_line_of_the_table_may_hold_any_name(name: str, state: State) -> None:
    line = f"42 ({name}) D 7 " + " ".join(str(n) for n in range(4, 52))
    stat = parse_stat(line)
    assert (stat.pid, stat.ppid, stat.comm, stat.state) == (42, 7, name, state)


@pytest.mark.parametrize("line", ["", "1 (x) R", "x (y) R " + "1 " * 40, "no bracket at all"])
def test_a_broken_line_is_a_value_error(line: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - int's own message will do
        parse_stat(line)
