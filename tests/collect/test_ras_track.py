"""For how long ranks are lost or apart, over one account after another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.collect.ras_accounts import DEAD, HEALTHY, UNRESPONSIVE, comm, document, missing, rank

from enginewatch.collect.ras_json import parse_json
from enginewatch.collect.ras_report import Report
from enginewatch.collect.ras_text import parse_text
from enginewatch.collect.ras_track import PREFIX, Tracks, follow, lines, samples
from enginewatch.model import METRIC_NAME, Labels, Sample

COMM = "communicator cf264af53edbe986 (8 ranks, running)"
OWN = Labels(job="nccl_ras", deployment="chat")
SEVEN = [rank(number) for number in range(7)]
APART = document(comm(*SEVEN, rank(7, counts=6649)))
IN_STEP = document(comm(*SEVEN, rank(7)))
LOST = document(comm(*SEVEN, lost=(missing(7),)))
OTHER_JOB = document(comm(rank(0), rank(1), name="0x99"))


def told(reports: Iterable[tuple[int, Report]]) -> tuple[list[Sample], list[str]]:
    """What is said after the last of these, each at its second."""
    tracks: Tracks = {}
    found: list[Sample] = []
    spoken: list[str] = []
    for second, report in reports:
        now = second * 1000
        tracks = follow(tracks, report, now)
        found = list(samples(report, tracks, now, OWN))
        spoken = list(lines(report, tracks, now))
    return found, spoken


def values(found: Sequence[Sample], name: str, *shown: str) -> dict[tuple[str, ...], float]:
    return {
        tuple(each.labels.get(label, "") for label in shown): each.value
        for each in found
        if each.labels[METRIC_NAME] == PREFIX + name
    }


def json_told(*texts: tuple[int, str]) -> tuple[list[Sample], list[str]]:
    return told((second, parse_json(text)) for second, text in texts)


def test_a_healthy_job_is_a_few_numbers() -> None:
    found, spoken = told([(0, parse_text(HEALTHY))])
    assert values(found, "communicators", "status", "error") == {("running", "ok"): 1}
    assert values(found, "processes_lost", "state") == {("dead",): 0, ("unresponsive",): 0}
    assert values(found, "info", "version", "format") == {("2.28.9", "text"): 1}
    assert len(found) == 7
    assert not spoken


def test_a_communicator_with_two_faults_counts_under_both() -> None:
    found, _ = told([(0, parse_text(DEAD))])
    assert values(found, "communicators", "status", "error") == {
        ("running", "incomplete"): 1,
        ("running", "mismatch"): 1,
    }


def test_a_lost_rank_is_lost_for_longer_and_longer() -> None:
    found, spoken = json_told((10, LOST), (20, LOST), (30, LOST))
    shown = ("communicator", "status")
    assert values(found, "ranks_lost_seconds", *shown) == {("cf264af53edbe986", "running"): 20}
    assert values(found, "ranks_lost", "state") == {("dead",): 0, ("unresponsive",): 1}
    assert spoken == [
        "0 of the job's processes are given up as dead, 1 give no answer",
        f"{COMM}: no word of rank 7 (GPU 3, process 4107 on 10.0.0.2)",
    ]


def test_a_rank_that_was_back_in_between_is_lost_anew() -> None:
    found, _ = json_told((10, LOST), (20, IN_STEP), (30, LOST))
    assert list(values(found, "ranks_lost_seconds").values()) == [0]


def test_in_text_a_communicator_that_is_not_named_is_well() -> None:
    texts = [(10, UNRESPONSIVE), (20, HEALTHY), (30, UNRESPONSIVE)]
    found, _ = told((second, parse_text(text)) for second, text in texts)
    assert list(values(found, "ranks_lost_seconds").values()) == [0]


def test_another_job_at_the_same_address_makes_nobody_forget() -> None:
    found, spoken = json_told((10, LOST), (20, OTHER_JOB))
    assert not values(found, "ranks_lost_seconds")
    assert not spoken
    found, _ = json_told((10, LOST), (20, OTHER_JOB), (30, LOST))
    assert list(values(found, "ranks_lost_seconds").values()) == [20]
    found, _ = json_told((10, LOST), (75, OTHER_JOB), (140, LOST))
    assert list(values(found, "ranks_lost_seconds").values()) == [0]


def test_counts_that_stay_apart_are_told_with_the_rank_behind() -> None:
    found, spoken = json_told((10, APART), (20, APART), (40, APART))
    labels = ("operation", "status")
    assert values(found, "operations_apart", *labels) == {("AllReduce", "running"): 1}
    assert values(found, "operations_apart_seconds", *labels) == {("AllReduce", "running"): 30}
    (line,) = spoken
    assert line == (
        f"{COMM}: counts of AllReduce stay apart: "
        "rank 7 (GPU 3, process 4107 on 10.0.0.2) at 6649; 7 ranks at 6650"
    )


def test_counts_that_move_on_are_no_fault() -> None:
    later = document(comm(*(rank(n, counts=6700) for n in range(7)), rank(7, counts=6699)))
    found, spoken = json_told((10, APART), (20, later))
    assert list(values(found, "operations_apart_seconds").values()) == [0]
    assert not spoken


def test_a_clock_that_was_set_back_makes_nothing_older() -> None:
    found, _ = json_told((100, APART), (10, APART))
    assert list(values(found, "operations_apart_seconds").values()) == [0]
    found, _ = json_told((100, LOST), (10, LOST))
    assert list(values(found, "ranks_lost_seconds").values()) == [0]


def test_there_are_no_more_series_than_communicators_that_one_may_name() -> None:
    many = document(*(comm(*SEVEN, lost=(missing(7),), name=hex(n + 1)) for n in range(80)))
    found, spoken = json_told((10, many))
    assert len(values(found, "ranks_lost_seconds", "communicator")) == 50
    assert len(spoken) == 81
