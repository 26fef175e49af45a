"""The shipped pack against recordings of a real engine: what it says, when, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from enginewatch.alerting.events import AlertChange, ChangeKind
from enginewatch.alerting.rules import load_rule_files
from enginewatch.recording import read_recording
from enginewatch.replay import Replay
from enginewatch.rulepack import rule_files

DATA = Path(__file__).parent / "data"
pytestmark = pytest.mark.slow


class Incident(NamedTuple):
    """An alert's change, and the seconds since the recording's first scrape within which it
    must come."""

    kind: ChangeKind
    alert: str
    earliest: float
    latest: float


FIRES, ENDS = ChangeKind.FIRING, ChangeKind.RESOLVED

# The fault begins at 180 s in the flood, at 60 s in the stall, at 40 s in those with a signal.
STORIES: dict[str, Sequence[Incident]] = {
    "prefill-flood": (
        Incident(FIRES, "EnginePrefillStarvation", 190, 180 + 45),
        Incident(ENDS, "EnginePrefillStarvation", 244, 244 + 30),
    ),
    # Against 300 s that the engine itself takes. Its death then leaves the alert firing.
    "tp-stall": (Incident(FIRES, "EngineStuck", 75, 60 + 45),),
    # Nothing on the page differs from idle: only a probe, the client, or the worker's process
    # state can see this one. When it has died, a minute is not over yet.
    "tp-stall-idle": (),
    "engine-killed": (),
    "restart": (
        Incident(FIRES, "EngineDeploymentDown", 42 + 55, 42 + 70),
        Incident(ENDS, "EngineDeploymentDown", 112, 112 + 15),
    ),
    "sigterm-hung": (
        Incident(FIRES, "EngineDeploymentDown", 40 + 55, 40 + 70),
        Incident(ENDS, "EngineDeploymentDown", 199, 199 + 15),
    ),
    "preemption": (
        Incident(FIRES, "EnginePreemptionStorm", 60 + 30, 60 + 120),
        Incident(ENDS, "EnginePreemptionStorm", 150, 150 + 60),
    ),
    "mixed-load": (),
}


@cache
def changes(name: str) -> tuple[tuple[float, AlertChange], ...]:
    events = list(read_recording(DATA / f"vllm-{name}.prom.xz"))
    replay = Replay(load_rule_files(rule_files()))
    return tuple(
        ((told.at - events[0].at) / 1000, told)
        for told in replay.run(events)
        if isinstance(told, AlertChange)
    )


@pytest.mark.parametrize("name", STORIES)
def test_the_pack_says_this_and_nothing_else(name: str) -> None:
    told = [(at, change) for at, change in changes(name) if change.kind in (FIRES, ENDS)]
    expected = STORIES[name]
    assert [(c.kind, c.alert.name) for _, c in told] == [(i.kind, i.alert) for i in expected]
    for (at, _), incident in zip(told, expected, strict=True):
        assert incident.earliest <= at <= incident.latest, f"{incident.alert} at {at:.0f} s"


def test_an_alert_outlives_the_engine_that_it_is_about() -> None:
    kinds = [change.kind for _, change in changes("tp-stall") if change.alert.name == "EngineStuck"]
    assert kinds == [ChangeKind.PENDING, ChangeKind.FIRING, ChangeKind.UNKNOWN]


def test_every_recording_has_its_story() -> None:
    names = {path.name.removeprefix("vllm-").split(".")[0] for path in DATA.glob("*.prom.xz")}
    assert names == STORIES.keys()
