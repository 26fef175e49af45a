"""What is made of accounts of a job, one after another: for how long a rank has been lost, and
for how long ranks have stayed apart.

Counts of operations that differ are no fault: NCCL's collectives outpace the question, and
ranks arrive one after another. That the same counts come again is one. Pure functions of
(account, when).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from enginewatch.collect.ras_report import Apart, Communicator, Fault, Report, Status
from enginewatch.model import METRIC_NAME, Labels, Millis, Sample

JOB: Final = "nccl_ras"
PREFIX: Final = "enginewatch_nccl_ras_"

_KEPT: Final[Millis] = 60_000
"""Another job that shares the address may answer in between; then this one is not forgotten."""
_MOST_NAMED: Final = 50
"""Communicators with series of their own."""
_MOST_OPERATIONS: Final = 16
"""NCCL has fewer."""
_MOST_MEMBERS: Final = 4
_OK: Final = "ok"


@dataclass(frozen=True, slots=True)
class Track:
    """What is remembered of a communicator: since when it has lost ranks, and since when the
    counts of an operation have been as they are."""

    seen: Millis
    lost: Millis | None = None
    apart: Mapping[str, tuple[Apart, Millis]] = field(default_factory=dict)


Tracks = Mapping[str, Track]


def follow(before: Tracks, report: Report, now: Millis) -> Tracks:
    """What is remembered after this account. One in text names no communicator without a fault,
    so what it does not name has none."""
    found = {comm.name: _track(before.get(comm.name), comm, now) for comm in report.communicators}
    if report.format == "text":
        return found
    kept = {
        name: track
        for name, track in before.items()
        if name not in found and 0 <= now - track.seen <= _KEPT
    }
    return {**kept, **found}


def _track(before: Track | None, comm: Communicator, now: Millis) -> Track:
    old = before or Track(now)
    apart = {}
    for each in comm.apart:
        known = old.apart.get(each.operation)
        same = known is not None and known[0] == each and known[1] <= now
        apart[each.operation] = known if known is not None and same else (each, now)
    lost = None
    if comm.lost_ranks:
        lost = now if old.lost is None else min(old.lost, now)
    return Track(now, lost, apart)


def samples(report: Report, tracks: Tracks, now: Millis, own: Labels) -> Iterator[Sample]:
    """One round: all that an account says."""
    yield _sample("info", own.with_(version=report.version, format=report.format), 1.0)
    yield _sample("collection_seconds", own, report.seconds)
    yield _sample("collection_timeouts", own, report.timeouts)
    if report.processes is not None:
        yield _sample("processes", own, report.processes)
    yield _sample("processes_lost", own.with_(state="dead"), report.dead)
    yield _sample("processes_lost", own.with_(state="unresponsive"), report.unresponsive)
    groups: Counter[Labels] = Counter()
    for (status, faults), number in report.groups.items():
        for error in sorted(faults) or (_OK,):
            groups[own.with_(status=status, error=error)] += number
    for labels, number in groups.items():
        yield _sample("communicators", labels, number)
    for comm in _in_trouble(report)[:_MOST_NAMED]:
        yield from _of_communicator(comm, tracks[comm.name], now, own)


def _of_communicator(
    comm: Communicator, track: Track, now: Millis, own: Labels
) -> Iterator[Sample]:
    labels = own.with_(communicator=comm.name, status=comm.status)
    if track.lost is not None:
        dead = sum(each.dead for each in comm.lost)
        yield _sample("ranks_lost", labels.with_(state="dead"), dead)
        yield _sample("ranks_lost", labels.with_(state="unresponsive"), comm.lost_ranks - dead)
        yield _sample("ranks_lost_seconds", labels, (now - track.lost) / 1000)
    for each, since in islice(track.apart.values(), _MOST_OPERATIONS):
        operation = labels.with_(operation=each.operation)
        yield _sample("operations_apart", operation, each.behind)
        yield _sample("operations_apart_seconds", operation, (now - since) / 1000)


def lines(report: Report, tracks: Tracks, now: Millis) -> Iterator[str]:
    """What speaks for a hang, a line each, the gravest first. Counts that were just seen apart
    say nothing yet."""
    if report.dead or report.unresponsive:
        yield (
            f"{report.dead} of the job's processes are given up as dead, "
            f"{report.unresponsive} give no answer"
        )
    for comm in _in_trouble(report):
        what = f"communicator {comm.name} ({comm.size} ranks, {comm.status})"
        for lost in comm.lost[:_MOST_MEMBERS]:
            yield f"{what}: no word of {lost.member}{', given up as dead' if lost.dead else ''}"
        if comm.lost_ranks > _MOST_MEMBERS:
            yield f"{what}: no word of {comm.lost_ranks} ranks in all"
        for error in comm.errors[:_MOST_MEMBERS]:
            yield f"{what}: {error}"
        for each, since in tracks[comm.name].apart.values():
            if since < now and comm.status is Status.RUNNING:
                yield f"{what}: counts of {each.operation} stay apart: {_levels(each)}"


def _levels(apart: Apart) -> str:
    told = []
    for level in sorted(apart.levels):
        named = level.ranks == len(level.members) <= _MOST_MEMBERS
        who = ", ".join(map(str, level.members)) if named else f"{level.ranks} ranks"
        told.append(f"{who} at {level.operations}")
    return "; ".join(told)


def _in_trouble(report: Report) -> list[Communicator]:
    """Those with a fault, lost ranks first."""
    faulty = [comm for comm in report.communicators if comm.faults or comm.lost_ranks]
    order = list(Fault)
    return sorted(
        faulty, key=lambda comm: min((order.index(f) for f in comm.faults), default=len(order))
    )


def _sample(name: str, labels: Labels, value: float) -> Sample:
    return Sample(labels.with_(**{METRIC_NAME: PREFIX + name}), value)
