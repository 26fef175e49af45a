"""The memory ballast itself: it holds nothing before it is told to, and its end frees all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from enginechaos.errors import TargetError
from enginechaos.faults import MemoryBallast, Target
from enginechaos.load import Load
from enginechaos.sim.gpu import GpuFile
from enginechaos.sim.memory import GIB

LOG_OF_OLD = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 MiB.\n"
NOWHERE = Target(
    name="a target",
    deployment="chat",
    tier="sim",
    url="http://127.0.0.1:9",
    metrics_url="http://127.0.0.1:9/metrics",
    model="m",
    table=list,
)


@pytest.fixture
def load() -> Iterator[Load]:
    made = Load(NOWHERE.url, NOWHERE.model)
    yield made
    made.stop()


def test_only_engines_on_simulated_gpus_that_can_be_launched_anew_are_starved(load: Load) -> None:
    with pytest.raises(TargetError, match="not an engine on simulated GPUs"):
        MemoryBallast(load).undo(NOWHERE)


def test_nothing_is_held_before_the_injection_nor_after_the_undo(
    tmp_path: Path, load: Load
) -> None:
    file = GpuFile(tmp_path / "gpus.json")
    file.prepare(1, 8 * GIB, "a GPU", (9, 0))
    log = tmp_path / "engine.log"
    log.write_text(LOG_OF_OLD)
    launched: list[bool] = []
    target = replace(
        NOWHERE,
        gpu_file=file.path,
        log_files=(log,),
        relauncher=lambda **_: launched.append(True),
    )
    fault = MemoryBallast(load, leave_gib=0.5)
    (action,) = fault.undo(target)
    assert not fault.verify(target).found
    assert file.free(0) == 8 * GIB
    fault.inject(target)
    assert fault.verify(target).found
    assert file.free(0) == GIB // 2
    assert not fault.crashed(target).found, "a line of an earlier crash is no evidence"
    log.write_text(LOG_OF_OLD * 2)
    assert fault.crashed(target).found
    for _ in range(2):
        fault.retract(target)
    assert "ended already" in action.do()
    assert file.free(0) == 8 * GIB
    assert launched == [True]
