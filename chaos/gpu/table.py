"""The results as a table: when our alerts fired, and when the backend itself spoke."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

OURS: Final = (
    "EngineRankStopped",
    "EngineRankDead",
    "EngineProbeHangs",
    "EngineStuck",
    "EngineRankLags",
    "EngineRanksSpin",
    "EngineRankUnreachable",
    "EngineRanksOutOfStep",
    "EngineCollectiveFailed",
)
"""Those that speak of a stall; pages beside them stand in the last column."""
TIMEOUT: Final = re.compile(
    r"Watchdog caught collective operation timeout|Timed out waiting \d+ms|[Hh]eartbeat monitor"
    r"|watchdog got stuck|Connection (?:closed|reset) by peer|Connection closed by remote peer"
)

Case = Mapping[str, Any]


def spoke(case: Case) -> tuple[float, int, str] | None:
    """When the backend first said that a collective failed, by which rank, and the words."""
    for line in case["said"]:
        found = TIMEOUT.search(line["line"])
        if found is not None:
            return float(line["after"]), int(line["rank"]), found.group()
    return None


def fired(case: Case) -> dict[str, float]:
    """The first time of each page, in seconds after the injection."""
    times: dict[str, float] = {}
    for alert in case["alerts"]:
        if alert["severity"] == "page" and "firing_after" in alert:
            first = min(times.get(alert["name"], float("inf")), float(alert["firing_after"]))
            times[alert["name"]] = first
    return times


def table(cases: Sequence[Case]) -> str:
    """Markdown, a row a case; times are seconds after the injection."""
    shown = [name for name in OURS if any(name in fired(case) for case in cases)]
    head = ["what was done", *shown, "the backend itself", "ranks that ended", "other pages"]
    rows = [head, ["---"] * len(head)]
    rows += [_row(case, shown) for case in cases]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _row(case: Case, shown: Sequence[str]) -> list[str]:
    times, said = fired(case), spoke(case)
    others = [f"{name} {at:.1f}" for name, at in times.items() if name not in OURS]
    ended = [f"{rank} at {at:.1f}" for rank, at in case["ended"].items()]
    doubt = "" if case["verified"]["good"] else " (not verified)"
    return [
        f"{case['case']}{doubt}",
        *(f"{times[name]:.1f}" if name in times else "—" for name in shown),
        "silent" if said is None else f"{said[0]:.1f}, rank {said[1]}: {said[2]}",
        ", ".join(ended) or "none",
        ", ".join(others) or "none",
    ]
