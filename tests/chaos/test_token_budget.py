"""A token budget that does not suit is proved by what users wait for, and is taken back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from tests.support.server import serve

from enginechaos.errors import TargetError
from enginechaos.faults import SmallTokenBudget, Target, WholePrompts
from enginechaos.load import Load
from enginechaos.sim.settings import Settings


@dataclass
class Engine:
    running: int = 16
    waiting: int = 0
    launches: list[dict[str, object]] = field(default_factory=list)

    def relaunch(self, **changes: object) -> None:
        self.launches.append(changes)

    async def metrics(self, _: Request) -> PlainTextResponse:
        return PlainTextResponse(
            f"vllm:num_requests_running {self.running}\nvllm:num_requests_waiting {self.waiting}\n"
        )


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def target(engine: Engine) -> Iterator[Target]:
    with serve(Starlette(routes=[Route("/metrics", engine.metrics)])) as url:
        yield Target(
            name="queues",
            deployment="queues",
            tier="sim",
            url=url,
            metrics_url=f"{url}/metrics",
            model="m",
            table=list,
            relauncher=engine.relaunch,
        )


@pytest.fixture
def fault(target: Target) -> Iterator[SmallTokenBudget]:
    load = Load(target.url, target.model)
    yield SmallTokenBudget(load, tokens=32)
    load.stop()


def first_token(load: Load, *, after: float, ago: float = 0.0) -> None:
    at = time.time() - ago
    load.ledger.token(load.ledger.begin(at - after), at)


def test_longer_waits_and_a_queue_are_the_evidence_and_neither_alone(
    fault: SmallTokenBudget, target: Target, engine: Engine
) -> None:
    first_token(fault.load, after=0.1, ago=10)
    fault.undo(target)
    fault.inject(target)
    assert not fault.verify(target).found, "no first token has come since"
    first_token(fault.load, after=2.0)
    assert not fault.verify(target).found, "nobody waits"
    engine.running, engine.waiting = 5, 11
    found = fault.verify(target)
    assert found.found
    assert "the page has 5 requests running and 11 waiting" in found.what
    for _ in range(9):
        first_token(fault.load, after=0.1)
    assert not fault.verify(target).found, "users wait no longer than before"


def test_the_budget_is_taken_back_once(
    fault: SmallTokenBudget, target: Target, engine: Engine
) -> None:
    fault.undo(target)
    fault.retract(target)
    assert not engine.launches, "nothing was injected"
    fault.inject(target)
    for _ in range(2):
        fault.retract(target)
    assert engine.launches == [{"max_num_batched_tokens": 32}, {}]


def test_gaps_that_have_grown_are_the_evidence_of_prompts_read_whole(
    fault: SmallTokenBudget, target: Target, engine: Engine
) -> None:
    ledger = fault.load.ledger
    stream = ledger.begin(time.time() - 12.2)
    for ago in (12.1, 12.0):
        ledger.token(stream, time.time() - ago)
    ledger.end(stream, time.time() - 12.0)
    whole = WholePrompts(fault.load)
    whole.undo(target)
    whole.inject(target)
    assert not whole.verify(target).found, "nothing has come since"
    stream = ledger.begin(time.time())
    ledger.token(stream, time.time() - 1)
    ledger.token(stream, time.time())
    found = whole.verify(target)
    assert found.found, found.what
    whole.retract(target)
    whole.retract(target)
    launched, original = engine.launches
    assert Settings.model_validate(launched).chunked_prefill is False
    assert original == {}


def test_it_is_not_changed_where_nothing_could_launch_the_engine_anew(
    fault: SmallTokenBudget, target: Target
) -> None:
    nowhere = replace(target, relauncher=None)
    with pytest.raises(TargetError, match="so its token budget is not changed"):
        fault.undo(nowhere)
    with pytest.raises(TargetError, match="so its prompts are read in chunks"):
        WholePrompts(fault.load).undo(nowhere)
