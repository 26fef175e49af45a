"""An oversized draft is proved by what GPU and page say, and is taken back by a relaunch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from tests.support.server import serve

from enginechaos.errors import TargetError
from enginechaos.faults import OversizedDraft, Target
from enginechaos.faults.looks import card, metric
from enginechaos.load import Load
from enginechaos.sim.gpu import GpuFile
from enginechaos.sim.memory import GIB
from enginechaos.sim.settings import Settings

OF_OLD = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 MiB.\n"


@dataclass
class Engine:
    """Says what it would on its page; its memory is a claim of this process."""

    gpus: GpuFile
    launches: list[dict[str, object]] = field(default_factory=list)
    page: str = "vllm:num_requests_running 4\n"

    def relaunch(self, **changes: object) -> None:
        self.launches.append(changes)

    async def metrics(self, _: Request) -> PlainTextResponse:
        return PlainTextResponse(self.page)


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    made = Engine(GpuFile(tmp_path / "gpus.json"))
    made.gpus.prepare(1, 140 * GIB, "a GPU", (9, 0))
    (tmp_path / "engine.log").write_text(OF_OLD)
    return made


@pytest.fixture
def target(engine: Engine, tmp_path: Path) -> Iterator[Target]:
    with serve(Starlette(routes=[Route("/metrics", engine.metrics)])) as url:
        yield Target(
            name="drafts",
            deployment="drafts",
            tier="sim",
            url=url,
            metrics_url=f"{url}/metrics",
            model="m",
            table=list,
            relauncher=engine.relaunch,
            gpu_file=engine.gpus.path,
            log_files=(tmp_path / "engine.log",),
        )


@pytest.fixture
def fault(target: Target) -> Iterator[OversizedDraft]:
    load = Load(target.url, target.model)
    yield OversizedDraft(load)
    load.stop()


def hold(target: Target, pid: int, size: int) -> None:
    assert target.gpu_file is not None
    found = json.loads(target.gpu_file.read_text())
    found["gpus"][0]["processes"] = [{"pid": pid, "memory": size}]
    target.gpu_file.write_text(json.dumps(found))


def test_little_free_memory_and_drafts_are_the_evidence_and_neither_alone(
    fault: OversizedDraft, target: Target, engine: Engine
) -> None:
    fault.undo(target)
    fault.inject(target)
    assert not fault.verify(target).found
    hold(target, 1, 139 * GIB)
    assert not fault.verify(target).found, "nothing drafts"
    engine.page = "vllm:spec_decode_num_draft_tokens_total 70\n"
    assert fault.verify(target) == (
        True,
        "GPU 0 has 1.00 GiB free, and the page counts 70 draft tokens",
    )
    hold(target, 1, 130 * GIB)
    assert not fault.verify(target).found, "there is room for any batch"


def test_it_is_settings_of_the_engine_and_taken_back_once(
    fault: OversizedDraft, target: Target, engine: Engine
) -> None:
    fault.undo(target)
    fault.retract(target)
    assert not engine.launches, "nothing was injected"
    fault.inject(target)
    for _ in range(2):
        fault.retract(target)
    draft, original = engine.launches
    assert Settings.model_validate(draft).memory.draft_weights_gib == fault.weights_gib
    assert original == {}


def test_a_crash_is_a_new_line_of_the_log_and_nobody_who_answers(
    fault: OversizedDraft, target: Target
) -> None:
    fault.undo(target)
    fault.inject(target)
    gone = replace(target, url="http://127.0.0.1:9")
    assert not fault.crashed(gone).found, "a line of an earlier crash is no evidence"
    target.log_files[0].write_text(OF_OLD * 2)
    assert not fault.crashed(target).found, "it answers"
    assert fault.crashed(gone).found


def test_only_engines_on_simulated_gpus_that_can_be_launched_anew_get_one(
    fault: OversizedDraft, target: Target
) -> None:
    for lacking in (replace(target, relauncher=None), replace(target, gpu_file=None)):
        with pytest.raises(TargetError):
            fault.undo(lacking)
    with pytest.raises(TargetError, match="no simulated GPUs"):
        card(replace(target, gpu_file=None))


def test_a_metric_is_summed_and_is_none_where_there_is_none(target: Target, engine: Engine) -> None:
    engine.page = 'n{engine="0"} 1\nn{engine="1"} 2\n'
    assert metric(target, "n") == 3
    assert metric(target, "other") is None
    assert metric(replace(target, metrics_url="http://127.0.0.1:9/metrics"), "n") is None
