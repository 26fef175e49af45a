"""NCCL's account of a job as text: real ones, and by the source what no real job has shown."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.collect import ras_accounts as accounts

from enginewatch.collect.ras_report import (
    Apart,
    Fault,
    Level,
    Lost,
    Member,
    Process,
    RasError,
    Reason,
    Status,
)
from enginewatch.collect.ras_text import parse_text

HASH = "cf264af53edbe986"


def member(rank: int, gpu: str, pid: int, node: str) -> Member:
    return Member(rank, gpu, Process(pid, node))


def test_a_healthy_job() -> None:
    found = parse_text(accounts.HEALTHY)
    assert (found.version, found.format, found.processes) == ("2.28.9", "text", 1)
    assert found.groups == {(Status.RUNNING, frozenset()): 1}
    assert found.communicators == ()
    assert (found.dead, found.unresponsive, found.timeouts, found.seconds) == (0, 0, 0, 0.0)


def test_a_rank_that_gives_no_answer() -> None:
    found = parse_text(accounts.UNRESPONSIVE)
    assert (found.processes, found.dead, found.unresponsive, found.timeouts) == (8, 0, 1, 2)
    assert found.seconds == 5.021
    assert found.groups == {
        (Status.RUNNING, frozenset({Fault.INCOMPLETE})): 1,
        (Status.RUNNING, frozenset()): 2,
    }
    (comm,) = found.communicators
    assert (comm.name, comm.size, comm.status) == (HASH, 8, Status.RUNNING)
    assert comm.lost == (Lost(member(7, "3", 4107, "10.0.0.2"), dead=False),)
    assert comm.lost_ranks == 1


def test_ranks_that_are_given_up_and_others_apart() -> None:
    found = parse_text(accounts.DEAD)
    assert (found.dead, found.unresponsive) == (2, 0)
    (comm,) = found.communicators
    assert comm.faults == {Fault.INCOMPLETE, Fault.MISMATCH}
    assert comm.lost == (
        Lost(Member(6), dead=True),
        Lost(member(7, "3 (NVML 7)", 4107, "10.0.0.2"), dead=True),
    )
    assert comm.apart == (
        Apart(
            "AllReduce",
            (
                Level(6650, 4),
                Level(
                    0,
                    2,
                    (member(0, "0", 4100, "10.0.0.1"), member(1, "1", 4101, "10.0.0.1")),
                ),
            ),
        ),
        Apart("Broadcast", (Level(12, 5), Level(11, 1, (member(3, "3", 4103, "10.0.0.1"),)))),
    )
    assert [each.behind for each in comm.apart] == [6650, 1]


def test_ranks_that_report_errors() -> None:
    (comm,) = parse_text(accounts.FAILED).communicators
    assert (comm.status, comm.faults) == (Status.ABORT, {Fault.ERROR, Fault.MISMATCH})
    assert comm.errors[1] == "2 ranks reported Remote process error"
    assert comm.apart == ()


def test_the_first_versions_say_it_otherwise() -> None:
    (comm,) = parse_text(accounts.OLD).communicators
    assert comm.status is Status.NOCOMM
    assert comm.lost == (Lost(Member(6), dead=False), Lost(Member(7), dead=False))
    assert [each.operation for each in comm.apart] == ["collective"]


def test_a_job_whose_nodes_differ() -> None:
    assert parse_text(accounts.UNEVEN).processes == 11


def test_a_job_without_a_communicator() -> None:
    head, _, table = accounts.HEALTHY.partition("Group ")
    rest = table.partition("\nErrors\n")[2]
    found = parse_text(f"{head}No communicator data collected!\n\nErrors\n{rest}")
    assert (found.groups, found.processes) == ({}, 1)


@pytest.mark.parametrize("lines", range(3, len(accounts.HEALTHY.splitlines()) - 3))
def test_an_account_that_is_cut_off_is_none(lines: int) -> None:
    short = "".join(accounts.HEALTHY.splitlines(keepends=True)[:lines])
    with pytest.raises(RasError) as failure:
        parse_text(short)
    assert failure.value.reason is Reason.CUT_OFF


@pytest.mark.parametrize("junk", ["", "HTTP/1.1 400 Bad Request\r\n\r\n", "NCCL", "\0" * 99])
def test_junk_is_no_account(junk: str) -> None:
    with pytest.raises(RasError) as failure:
        parse_text(junk)
    assert failure.value.reason is Reason.UNREADABLE


def test_a_status_that_is_not_known_is_told() -> None:
    with pytest.raises(RasError, match="SHRINKING"):
        parse_text(accounts.text(accounts.group(0, 1, 8, "SHRINKING", "OK")))


@given(st.data())
def test_lines_lost_or_doubled_break_nothing(data: st.DataObject) -> None:
    lines = data.draw(st.sampled_from((accounts.DEAD, accounts.OLD, accounts.FAILED))).splitlines()
    mixed = data.draw(st.lists(st.sampled_from(lines), max_size=60))
    with contextlib.suppress(RasError):
        parse_text("\n".join((lines[0], *mixed, "Warnings", "========", *mixed)))


def test_a_real_rank_that_was_stopped() -> None:
    found = parse_text(accounts.STOPPED)
    assert (found.unresponsive, found.timeouts, found.seconds) == (1, 1, 2.357)
    (comm,) = found.communicators
    assert (comm.status, comm.faults) == (Status.RUNNING, {Fault.INCOMPLETE})
    assert comm.lost == (Lost(Member(1, "0", Process(452, "127.0.0.1")), dead=False),)


def test_a_real_rank_that_was_killed() -> None:
    (comm,) = parse_text(accounts.KILLED).communicators
    assert comm.faults == {Fault.INCOMPLETE, Fault.ERROR}
    assert comm.lost == (Lost(Member(1, "0", Process(903, "127.0.0.1")), dead=False),)
    assert "Remote process error" in comm.errors[1]


def test_real_ranks_whose_counts_differ() -> None:
    (comm,) = parse_text(accounts.CONTINUED).communicators
    assert comm.faults == {Fault.MISMATCH}
    ((operation, levels),) = comm.apart
    assert (operation, [level.operations for level in levels]) == ("AllReduce", [646, 645])
