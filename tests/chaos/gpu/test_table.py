"""The table of detection times: our pages beside the backend's own words."""

from __future__ import annotations

from typing import Any

from chaos.gpu.table import OURS, fired, spoke, table

TIMED_OUT = "RuntimeError: [unbound_buffer.cc:78] Timed out waiting 30000ms for recv operation"


def case(**changes: Any) -> dict[str, Any]:
    nothing: dict[str, Any] = {"case": "SIGSTOP", "alerts": [], "said": [], "ended": {}}
    return {**nothing, "verified": {"good": True}, **changes}


def alert(name: str, after: float | None, severity: str = "page") -> dict[str, Any]:
    times = {} if after is None else {"firing_after": after}
    return {"name": name, "severity": severity, "pending_after": 1.0, **times}


def test_a_page_counts_from_when_it_fires_first() -> None:
    ranks = [alert("EngineRankStopped", 12.0), alert("EngineRankStopped", 9.9)]
    others = [alert("EngineRankDead", None), alert("EngineBlind", 3.0, "ticket")]
    assert fired(case(alerts=ranks + others)) == {"EngineRankStopped": 9.9}


def test_the_backend_speaks_with_the_first_line_of_a_failed_collective() -> None:
    said = [
        {"rank": 1, "after": 2.0, "line": "dumping nothing"},
        {"rank": 0, "after": 30.3, "line": TIMED_OUT},
        {"rank": 1, "after": 43.0, "line": "Connection closed by peer"},
    ]
    assert spoke(case(said=said)) == (30.3, 0, "Timed out waiting 30000ms")
    assert spoke(case()) is None


def test_a_row_a_case_and_a_column_for_each_page_that_came() -> None:
    stopped = case(
        alerts=[alert("EngineRankStopped", 9.93), alert("EngineDeploymentDown", 50.0)],
        said=[{"rank": 0, "after": 30.3, "line": TIMED_OUT}],
        ended={0: 30.31},
    )
    quiet = case(case="busy loop of 1 s", verified={"good": False})
    rows = [line.strip("| ").split(" | ") for line in table([stopped, quiet]).splitlines()]
    assert rows == [
        ["what was done", OURS[0], "the backend itself", "ranks that ended", "other pages"],
        ["---"] * 5,
        [
            "SIGSTOP",
            "9.9",
            "30.3, rank 0: Timed out waiting 30000ms",
            "0 at 30.3",
            "EngineDeploymentDown 50.0",
        ],
        ["busy loop of 1 s (not verified)", "—", "silent", "none", "none"],
    ]
