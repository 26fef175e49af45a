"""A stopped engine core: proved by its state, taken back by CONT, and nobody else's business."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from enginechaos.actions import Signal
from enginechaos.actors.base import Done
from enginechaos.errors import TargetError
from enginechaos.faults import Evidence, StoppedCore
from enginechaos.processes import Process
from enginechaos.target import Target

CORE = Process(7, 70, 0, "VLLM::EngineCore")
SERVER = Process(6, 60, 0, "vllm serve m")


class Machine:
    """Processes that do as signals say, at once."""

    place = "a machine of the test's"

    def __init__(self, *there: Process):
        self.states = dict.fromkeys(there, "S")

    def spec(self) -> Mapping[str, Any]:
        return {}

    def run(self, argv: Sequence[str], within: float = 20.0) -> Done:
        raise AssertionError(f"nothing is run to stop a process: {argv}")

    def processes(self) -> Sequence[Process]:
        return list(self.states)

    def state(self, process: Process) -> str:
        return self.states.get(process, "")

    def signal(self, process: Process, name: str) -> bool:
        if process not in self.states:
            return False
        self.states[process] = {"STOP": "T", "CONT": "S"}[name]
        return True


def engine(machine: Machine) -> Target:
    return Target(
        name="a target",
        deployment="chat",
        tier="staging",
        url="http://127.0.0.1:9",
        metrics_url="http://127.0.0.1:9/metrics",
        model="m",
        table=machine.processes,
        actor=machine,
    )


def test_the_core_is_stopped_alone_and_goes_on_after_the_undo() -> None:
    machine = Machine(SERVER, CORE)
    target, fault = engine(machine), StoppedCore()
    (undo,) = fault.undo(target)
    assert undo == Signal(CORE, "CONT", machine)
    assert not fault.verify(target).found, "nothing was done yet"
    fault.inject(target)
    assert machine.states == {SERVER: "S", CORE: "T"}
    assert fault.verify(target) == Evidence(True, f"/proc says T of {CORE}")
    for _ in range(2):
        undo.do()
        assert machine.states == {SERVER: "S", CORE: "S"}
    assert not fault.verify(target).found


def test_a_core_that_ends_before_it_is_stopped_is_no_evidence() -> None:
    machine = Machine(CORE)
    target, fault = engine(machine), StoppedCore()
    (undo,) = fault.undo(target)
    machine.states.clear()
    with pytest.raises(TargetError, match="is gone"):
        fault.inject(target)
    assert fault.verify(target) == Evidence(False, f"/proc says gone of {CORE}")
    assert "is gone already" in undo.do()


def test_an_engine_without_a_core_has_nothing_to_stop() -> None:
    with pytest.raises(TargetError, match="no process of a target is its engine"):
        StoppedCore().undo(engine(Machine(SERVER)))


def test_nothing_is_stopped_that_nobody_has_promised_to_let_go_on() -> None:
    machine = Machine(CORE)
    with pytest.raises(TargetError, match="undo"):
        StoppedCore().inject(engine(machine))
    assert machine.states == {CORE: "S"}
