"""NCCL's account of a job in JSON, judged as NCCL judges the same data for its text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.collect.ras_accounts import HEALTHY as HEALTHY_TEXT
from tests.collect.ras_accounts import HEALTHY_JSON, comm, document, missing, rank

from enginewatch.collect.ras_json import parse_json
from enginewatch.collect.ras_report import Fault, Lost, Member, Process, RasError, Reason, Status
from enginewatch.collect.ras_text import parse_text

HEALTHY = [rank(number) for number in range(8)]


def test_a_healthy_job() -> None:
    found = parse_json(document(comm(*HEALTHY), comm(*HEALTHY[:4], name="0xab")))
    assert (found.version, found.format, found.processes) == ("2.29.1", "json", 8)
    assert found.groups == {(Status.RUNNING, frozenset()): 2}
    assert [each.name for each in found.communicators] == ["cf264af53edbe986", "00000000000000ab"]
    assert (found.dead, found.unresponsive, found.seconds) == (0, 0, 0.25)


@pytest.mark.parametrize(
    ("changed", "status", "faults"),
    [
        (rank(7, init_state=7), Status.RUNNING, {Fault.MISMATCH}),
        (rank(7, abort_flag=True), Status.ABORT, {Fault.MISMATCH}),
        (rank(7, finalize_called=True), Status.FINALIZE, {Fault.MISMATCH}),
        (rank(7, destroy_flag=True), Status.FINALIZE, {Fault.MISMATCH}),
        (rank(7, async_error=6), Status.RUNNING, {Fault.ERROR}),
        (rank(7, async_error=7), Status.RUNNING, set()),
        (rank(7, counts=6649), Status.RUNNING, {Fault.MISMATCH}),
    ],
)
def test_one_rank_is_otherwise(changed: Any, status: Status, faults: set[Fault]) -> None:
    (found,) = parse_json(document(comm(*HEALTHY[:7], changed))).communicators
    assert (found.status, found.faults) == (status, faults)


def test_a_rank_that_is_still_in_initialization_as_all_are() -> None:
    (found,) = parse_json(document(comm(*(rank(n, init_state=7) for n in range(8))))).communicators
    assert (found.status, found.faults) == (Status.INIT, frozenset())


def test_lost_ranks() -> None:
    lost = (missing(6), missing(7, dead=True))
    given = [comm(*HEALTHY[:6], lost=lost), comm(*HEALTHY[4:6], lost=lost, name="0x1")]
    found = parse_json(document(*given, timeouts=2))
    assert (found.dead, found.unresponsive, found.timeouts) == (1, 1, 2)
    first = found.communicators[0]
    assert first.faults == {Fault.INCOMPLETE}
    assert first.lost == (
        Lost(Member(6, "2", Process(4106, "10.0.0.2")), dead=False),
        Lost(Member(7, "3", Process(4107, "10.0.0.2")), dead=True),
    )


def test_a_rank_that_has_left_is_not_lost() -> None:
    lost = (missing(7, unresponsive=False),)
    (found,) = parse_json(document(comm(*HEALTHY[:7], lost=lost))).communicators
    assert (found.status, found.faults) == (Status.RUNNING, {Fault.MISMATCH})
    assert found.lost_ranks == 0


def test_counts_apart_name_the_ranks() -> None:
    (found,) = parse_json(document(comm(*HEALTHY[:7], rank(7, counts=6600)))).communicators
    (apart,) = found.apart
    assert (apart.operation, apart.behind) == ("AllReduce", 50)
    assert [(level.operations, level.ranks) for level in apart.levels] == [(6650, 7), (6600, 1)]
    assert str(apart.levels[1].members[0]) == "rank 7 (GPU 3, process 4107 on 10.0.0.2)"


def test_errors_are_in_words() -> None:
    given = comm(rank(0, init_state=2), rank(1, async_error=9))
    (found,) = parse_json(document(given)).communicators
    assert found.errors == (
        "rank 0 (GPU 0, process 4100 on 10.0.0.1): initialization error, System error",
        "rank 1 (GPU 1, process 4101 on 10.0.0.1): asynchronous error, result 9",
    )


@pytest.mark.parametrize("text", ["", document(comm(*HEALTHY))[:-40], "OK\n{", "[" * 99_999])
def test_an_account_that_is_cut_off_is_none(text: str) -> None:
    with pytest.raises(RasError) as failure:
        parse_json(text)
    assert failure.value.reason is Reason.CUT_OFF


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        3,
        {"communicators": [{}]},
        {"communicators": 5},
        json.loads(document(comm(*HEALTHY)).replace("6650", "Infinity")),
    ],
)
def test_other_json_is_none(value: object) -> None:
    with pytest.raises(RasError) as failure:
        parse_json(json.dumps(value))
    assert failure.value.reason is Reason.UNREADABLE


def test_a_real_job_in_both_formats() -> None:
    found, text = parse_json(HEALTHY_JSON), parse_text(HEALTHY_TEXT)
    assert (found.version, found.groups) == (text.version, text.groups)
    assert found.processes == 2
