"""Accounts of jobs: real ones (tests/data/ras), and as NCCL's source writes them
(src/ras/client_support.cc) where no real job was at hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def real(name: str) -> str:
    return (Path(__file__).parents[1] / "data/ras" / name).read_text(encoding="utf-8")


HEALTHY = real("healthy-2.28.9.txt")
HEALTHY_JSON = real("healthy-2.28.9.json")
STOPPED = real("stopped-2.28.9.txt")
"""A rank is stopped. In JSON, the same version leaves a comma out."""
STOPPED_JSON = real("stopped-2.28.9.json")
CONTINUED = real("continued-2.28.9.txt")
"""After that, when its peer has given the operation up: the counts stay apart."""
KILLED = real("killed-2.28.9.txt")

HEAD = """\
NCCL version 2.28.9 compiled with CUDA 13.0
CUDA runtime version 13000, driver version 13000

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      2          4            1          8        8

Communicators... ({seconds})
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
"""
GROUP = "{0:5d}  {1:8d}         2         4  {2:8d}         8  {3:>8s}  {4:>6s}\n"


def text(*groups: str, errors: str = "", warnings: str = "", seconds: str = "0.004s") -> str:
    return (
        HEAD.replace("{seconds}", seconds)
        + "".join(groups)
        + f"\nErrors\n======\n\n{errors}Warnings\n========\n\n{warnings}"
    )


def group(number: int, comms: int, size: int, status: str, errors: str) -> str:
    return GROUP.format(number, comms, size, status, errors)


UNRESPONSIVE = text(
    group(0, 1, 8, "RUNNING", "INCOMPLETE"),
    group(1, 2, 4, "RUNNING", "OK"),
    seconds="5.021s",
    errors=(
        "INCOMPLETE\n"
        "  Missing communicator data from 1 job process\n"
        "  Process 4107 on node 10.0.0.2 managing GPU 3\n"
        "\n"
        "#0-0 (cf264af53edbe986) INCOMPLETE\n"
        "  Missing communicator data from 1 rank\n"
        "  Rank 7 -- GPU 3 managed by process 4107 on node 10.0.0.2\n"
        "\n"
    ),
    warnings=(
        "TIMEOUT\n  Encountered 2 communication timeouts while gathering communicator data\n\n"
    ),
)
DEAD = text(
    group(0, 1, 8, "RUNNING", "INCOMPLETE,MISMATCH"),
    errors=(
        "DEAD\n"
        "  2 job processes are considered dead (unreachable via the RAS network)\n"
        "  Process 4106 on node 10.0.0.2 managing GPU 2\n"
        "  Process 4107 on node 10.0.0.2 managing GPUs 1,3 (NVML 5,7)\n"
        "\n"
        "#0-0 (00264af53edbe986) INCOMPLETE\n"
        "  Missing communicator data from 2 ranks\n"
        "  Rank 6 -- [process information not found]\n"
        "  Rank 7 -- GPU 3 (NVML 7) managed by process 4107 on node 10.0.0.2\n"
        "\n"
    ),
    warnings=(
        "#0-0 (00264af53edbe986) MISMATCH\n"
        "  Communicator ranks have different AllReduce operation counts\n"
        "  4 ranks have launched up to operation 6650\n"
        "  2 ranks have not launched any operations\n"
        "  Rank 0 -- GPU 0 managed by process 4100 on node 10.0.0.1\n"
        "  Rank 1 -- GPU 1 managed by process 4101 on node 10.0.0.1\n"
        "\n"
        "  Communicator ranks have different Broadcast operation counts\n"
        "  5 ranks have launched up to operation 12\n"
        "  Rank 3 has launched up to operation 11 -- "
        "GPU 3 managed by process 4103 on node 10.0.0.1\n"
        "\n"
    ),
)
FAILED = text(
    group(0, 1, 8, "ABORT", "ERROR,MISMATCH"),
    errors=(
        "#0-0 (cf264af53edbe986) ERROR\n"
        "  Asynchronous errors on 2 ranks\n"
        "  2 ranks reported Remote process error\n"
        "  Rank 1 -- GPU 1 managed by process 4101 on node 10.0.0.1\n"
        "  Rank 2 -- GPU 2 managed by process 4102 on node 10.0.0.1\n"
        "\n"
    ),
    warnings=(
        "#0-0 (cf264af53edbe986) MISMATCH\n"
        "  Communicator ranks have different status\n"
        "  7 ranks have status RUNNING\n"
        "  Rank 4 has status ABORT -- GPU 0 managed by process 4104 on node 10.0.0.2\n"
    ),
)
OLD = text(  # NCCL 2.24 and 2.25
    group(0, 1, 8, "UNKNOWN", "INCOMPLETE,MISMATCH"),
    errors=(
        "INCOMPLETE\n"
        "  Missing communicator data from 2 job processes\n"
        "\n"
        "#0-0 (cf264af53edbe986) INCOMPLETE\n"
        "  Missing communicator data from 2 ranks\n"
        "  The missing ranks: 6,7\n"
        "\n"
    ),
    warnings=(
        "#0-0 (cf264af53edbe986) MISMATCH\n"
        "  Communicator ranks have different collective operation counts\n"
        "  5 ranks have launched up to operation 41\n"
        "  Rank 2 has launched up to operation 40 -- "
        "GPU 2 managed by process 4102 on node 10.0.0.1\n"
        "\n"
    ),
)
UNEVEN = (
    HEALTHY.partition("  Nodes")[0]
    + "  Nodes  Processes         GPUs\n"
    + "          per node  per process\n"
    + "      2          4            1\n"
    + "      1          3            1\n"
    + "\n"
    + "  Nodes  Processes         GPUs\n"
    + "(total)    (total)      (total)\n"
    + "      3         11           11\n"
    + "\nThe outlier node:\n  Node 10.0.0.3 running processes 5000,5001,5002\n"
    + "\nCommunicators..."
    + HEALTHY.partition("Communicators...")[2]
)


def rank(number: int, *, counts: int | dict[str, int] = 6650, **status: Any) -> dict[str, Any]:
    """A rank of a running communicator, with `status` over what is usual."""
    given = counts if isinstance(counts, dict) else {"Broadcast": 12, "AllReduce": counts}
    usual = {
        "init_state": 0,
        "async_error": 0,
        "finalize_called": False,
        "destroy_flag": False,
        "abort_flag": False,
    }
    return {**_place(number), "status": {**usual, **status}, "collective_counts": given}


def missing(number: int, *, unresponsive: bool = True, dead: bool = False) -> dict[str, Any]:
    return {
        **_place(number),
        "status": {"unresponsive": unresponsive, "considered_dead": dead},
    }


def _place(number: int) -> dict[str, Any]:
    host, device = f"10.0.0.{1 + number // 4}", number % 4
    return {
        "rank": number,
        "host": host,
        "pid": 4100 + number,
        "cuda_dev": device,
        "nvml_dev": device,
    }


def comm(
    *ranks: dict[str, Any], name: str = "0xcf264af53edbe986", lost: tuple[dict[str, Any], ...] = ()
) -> dict[str, Any]:
    return {
        "hash": name,
        "secondary_hash": "0x1:0x2",
        "size": len(ranks) + len(lost),
        "ranks_count": len(ranks),
        "missing_ranks_count": len(lost),
        "ranks": list(ranks),
        "missing_ranks": list(lost),
    }


def document(*comms: dict[str, Any], timeouts: int = 0) -> str:
    return json.dumps(
        {
            "nccl_version": "2.29.1",
            "cuda_runtime_version": 13000,
            "cuda_driver_version": 13000,
            "timestamp": "2026-01-01 00:00:00",
            "communicators_count": len(comms),
            "communicators": list(comms),
            "ras": {"collection_time_sec": 0.25, "timeouts_count": timeouts},
        },
        indent=2,
    )
