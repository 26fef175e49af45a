"""NCCL's account of a job in JSON: raw data, judged here as NCCL judges it for its text.

Source: NVIDIA/nccl at 12df1a11 (2.31), src/ras/client_support.cc: rasDumpCommsToJSON for
the members, rasClientRunComms for what they mean. A rank's `status` holds numbers of
ncclResult_t (nccl.h).
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, Final

from enginewatch.collect.ras_report import (
    Apart,
    Communicator,
    Fault,
    Level,
    Lost,
    Member,
    Process,
    RasError,
    Reason,
    Report,
    Status,
)

_SUCCESS: Final = 0
_IN_PROGRESS: Final = 7
_RESULTS: Final = {
    1: "Unhandled CUDA error",
    2: "System error",
    3: "Internal error",
    4: "Invalid argument",
    5: "Invalid usage",
    6: "Remote process error",
}
"""ncclErrorToString."""


def parse_json(text: str) -> Report:
    """Raises RasError for what is no JSON, and for JSON of another kind."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise RasError(Reason.CUT_OFF, "the JSON ends too early, or is none") from None
    try:
        return _report(document)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as failure:
        what = f"JSON, but no account of a job: {type(failure).__name__} {failure}"
        raise RasError(Reason.UNREADABLE, what) from None


def _report(document: Any) -> Report:
    found = tuple(_communicator(each) for each in document["communicators"])
    lost = [(each.member.process, each.dead) for comm in found for each in comm.lost]
    members = {
        (member["host"], int(member["pid"]))
        for each in document["communicators"]
        for member in (*each["ranks"], *each["missing_ranks"])
    }
    return Report(
        version=str(document["nccl_version"]),
        format="json",
        groups=Counter((each.status, each.faults) for each in found),
        communicators=found,
        processes=len(members),
        dead=len({process for process, dead in lost if dead}),
        unresponsive=len({process for process, dead in lost if not dead}),
        timeouts=int(document["ras"]["timeouts_count"]),
        seconds=float(document["ras"]["collection_time_sec"]),
    )


def _communicator(given: Any) -> Communicator:
    ranks, missing = list(given["ranks"]), list(given["missing_ranks"])
    silent = [each for each in missing if each["status"]["unresponsive"]]
    statuses = {_status(each["status"]) for each in ranks}
    if len(silent) < len(missing):
        statuses.add(Status.NOCOMM)
    apart = tuple(_apart(ranks))
    errors = tuple(line for each in ranks for line in _errors(each))
    told = {
        Fault.INCOMPLETE: bool(silent),
        Fault.ERROR: bool(errors),
        Fault.MISMATCH: bool(apart) or len(statuses) > 1 or Status.NOCOMM in statuses,
    }
    return Communicator(
        name=str(given["hash"]).removeprefix("0x").rjust(16, "0"),
        size=int(given["size"]),
        status=next((status for status in Status if status in statuses), Status.INIT),
        faults=frozenset(fault for fault, holds in told.items() if holds),
        lost=tuple(Lost(_member(e), bool(e["status"]["considered_dead"])) for e in silent),
        lost_ranks=len(silent),
        apart=apart,
        errors=errors,
    )


def _status(given: Any) -> Status:
    if given["abort_flag"]:
        return Status.ABORT
    if given["finalize_called"] or given["destroy_flag"]:
        return Status.FINALIZE
    return Status.RUNNING if given["init_state"] == _SUCCESS else Status.INIT


def _apart(ranks: list[Any]) -> Iterator[Apart]:
    counts: dict[str, dict[int, list[Member]]] = defaultdict(lambda: defaultdict(list))
    for each in ranks:
        for operation, number in each["collective_counts"].items():
            counts[str(operation)][int(number)].append(_member(each))
    for operation, levels in counts.items():
        if len(levels) > 1:
            found = (Level(number, len(who), tuple(who)) for number, who in levels.items())
            yield Apart(operation, tuple(sorted(found, key=lambda level: -level.ranks)))


def _errors(given: Any) -> Iterator[str]:
    for key, kind in (("init_state", "initialization"), ("async_error", "asynchronous")):
        result = int(given["status"][key])
        if result not in (_SUCCESS, _IN_PROGRESS):
            yield f"{_member(given)}: {kind} error, {_RESULTS.get(result, f'result {result}')}"


def _member(given: Any) -> Member:
    cuda, nvml = int(given["cuda_dev"]), int(given["nvml_dev"])
    gpu = str(cuda) if cuda == nvml else f"{cuda} (NVML {nvml})"
    return Member(int(given["rank"]), gpu, Process(int(given["pid"]), str(given["host"])))
