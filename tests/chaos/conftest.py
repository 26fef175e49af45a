from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.chaos.world import World
from tests.chaos.world import world as a_world


@pytest.fixture
def world() -> Iterator[World]:
    with a_world() as made:
        yield made
