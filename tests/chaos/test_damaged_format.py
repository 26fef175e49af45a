"""A damaged format is proved by sums that were right before, and is taken back once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from tests.support.server import serve

from enginechaos.errors import TargetError
from enginechaos.faults import DamagedFormat
from enginechaos.target import Target


@dataclass
class Calculator:
    """An engine that adds, and says in a damaged format what `says` makes of the sum."""

    says: str = "{}"
    launches: list[object] = field(default_factory=list)

    def relaunch(self, **changes: object) -> None:
        self.launches.append(changes)
        self.says = "{}1" if changes else "{}"

    async def complete(self, request: Request) -> JSONResponse:
        found = re.search(r"(\d+) \+ (\d+)", (await request.json())["prompt"])
        assert found is not None
        total = int(found[1]) + int(found[2])
        return JSONResponse({"choices": [{"text": f" {self.says.format(total)}\n"}]})


@pytest.fixture
def engine() -> Calculator:
    return Calculator()


@pytest.fixture
def target(engine: Calculator) -> Iterator[Target]:
    app = Starlette(routes=[Route("/v1/completions", engine.complete, methods=["POST"])])
    with serve(app) as url:
        yield Target(
            name="calculator",
            deployment="calculator",
            tier="sim",
            url=url,
            metrics_url=f"{url}/metrics",
            model="adds",
            table=list,
            relauncher=engine.relaunch,
        )


def test_sums_that_become_wrong_are_the_evidence_and_the_undo_makes_them_right(
    target: Target, engine: Calculator
) -> None:
    fault = DamagedFormat()
    fault.undo(target)
    assert not fault.verify(target).found
    fault.inject(target)
    assert fault.verify(target) == (True, "48 of 48 sums are wrong, and none was before")
    fault.retract(target)
    fault.retract(target)
    assert not fault.verify(target).found
    assert engine.launches == [{"format": "nvfp4-batched"}, {}]


@pytest.mark.parametrize("says", ["{}1", "no idea"])
def test_an_engine_that_can_not_add_is_left_alone(
    target: Target, engine: Calculator, says: str
) -> None:
    engine.says = says
    fault = DamagedFormat()
    with pytest.raises(TargetError, match="48 of 48 sums are wrong before anything was done"):
        fault.inject(target)
    fault.retract(target)
    assert not engine.launches


def test_a_format_is_not_changed_where_nothing_could_launch_the_engine_anew() -> None:
    nowhere = Target("n", "n", "sim", "http://n", "http://n/metrics", "n", list)
    with pytest.raises(TargetError, match="so its format is not changed"):
        DamagedFormat().undo(nowhere)
