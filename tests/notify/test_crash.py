"""The crash test, short: `make soak` runs it long."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.soak.crash import crash


@pytest.mark.slow
@pytest.mark.integration
def test_nothing_is_lost_and_nothing_told_twice_by_a_process_that_is_killed(tmp_path: Path) -> None:
    outcome = crash(tmp_path, alerts=500, kills=6, seed=7, limit=120)
    assert not outcome.wrong, f"{outcome}\n" + "\n".join(outcome.wrong[:20])
    assert outcome.incidents == 500
    assert outcome.troubles > 200
