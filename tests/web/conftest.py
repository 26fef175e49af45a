"""A desk with a few alerts, and the API over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.web.desk import StubDesk, serving


@pytest.fixture
def desk() -> StubDesk:
    return StubDesk()


@pytest.fixture
def api(desk: StubDesk) -> Iterator[str]:
    with serving(desk) as url:
        yield url
