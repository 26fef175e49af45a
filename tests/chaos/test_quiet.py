"""A long silence is asked for minute by minute, and told of meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from enginechaos import quiet
from enginechaos.errors import Unexpected


class Control:
    """An induction and its scene, on a clock that only silence moves."""

    def __init__(self, names: Sequence[str] = (), noise_after: float = float("inf")):
        self.now = 0.0
        self.noise_after = noise_after
        self.began_at = 0.0
        self.notes: list[str] = []
        self.incident = SimpleNamespace(tell=lambda _, note: self.notes.append(note))
        stories = [SimpleNamespace(alert=SimpleNamespace(name=name)) for name in names]
        self.observer = SimpleNamespace(stories=lambda _: stories)
        self.load = SimpleNamespace(figures=lambda seconds: f"{seconds:g} s of figures")

    def expect_silence(self, seconds: float) -> None:
        self.now += seconds
        if self.now > self.noise_after:
            raise Unexpected("EngineStuck fires")

    def stay(self, seconds: float) -> list[str]:
        told: list[str] = []
        both: Any = self
        quiet.stay_quiet(both, both, seconds, told.append)
        return told


@pytest.fixture
def control(monkeypatch: pytest.MonkeyPatch) -> Control:
    made = Control(["EngineStuck", "EngineDown", "EngineStuck"])
    monkeypatch.setattr(quiet.time, "time", lambda: made.now)
    return made


def test_each_minute_and_the_verdict_are_told(control: Control) -> None:
    verdict = "no alert in 150 s; pending: EngineDown 1 times, EngineStuck 2 times"
    assert control.stay(150) == [
        "silent for 60 of 150 s: 60 s of figures",
        "silent for 120 of 150 s: 60 s of figures",
        "silent for 150 of 150 s: 30 s of figures",
        verdict,
    ]
    assert control.notes == [verdict]


def test_noise_ends_it_at_once(control: Control) -> None:
    control.noise_after = 90
    with pytest.raises(Unexpected, match="EngineStuck fires"):
        control.stay(3600)
    assert control.now == 120
    assert not control.notes
