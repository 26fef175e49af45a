"""The Alertmanager-compatible API over real HTTP, with a desk behind it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from starlette.applications import Starlette
from tests.notify.alerts import BESIDE, FIRED, resolved
from tests.support.server import serve
from tests.web.desk import StubDesk

from enginewatch.model import freeze
from enginewatch.web.alertmanager_api import AlertmanagerApi
from enginewatch.web.silences_api import SilencesApi

TICKET = replace(
    FIRED,
    labels=FIRED.labels.with_(alertname="Slow", severity="ticket", deployment="batch"),
    annotations=freeze({"summary": "slow"}),
)


@pytest.fixture
def desk() -> StubDesk:
    return StubDesk([FIRED, BESIDE, TICKET, resolved(replace(FIRED, labels=TICKET.labels))])


@pytest.fixture
def api(desk: StubDesk) -> Iterator[str]:
    def now() -> int:
        return time.time_ns() // 1_000_000

    reading = AlertmanagerApi(desk, now, now())
    writing = SilencesApi(desk, now, lambda _: None)
    with serve(Starlette(routes=[*reading.routes(), *writing.routes()])) as url:
        yield url
