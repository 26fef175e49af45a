"""When the daemon calls itself unhealthy: `/-/healthy`, and the heartbeat that then stops."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from enginewatch.config import Config
from enginewatch.daemon import STALLED_AFTER, Daemon


def test_rules_that_are_not_evaluated_any_more_are_an_ailment(tmp_path: Path) -> None:
    wall, now = 1_700_000_000_000, 0
    config = Config.model_validate({"storage": {"path": str(tmp_path)}})
    daemon = Daemon(lambda: config, Console(), clock=lambda: wall, steady=lambda: now)
    now += STALLED_AFTER
    assert daemon.ailment() is None
    wall += 3_600_000
    assert daemon.ailment() is None, "the clock was set"
    now += 5_000
    assert daemon.ailment() == "the rules were last evaluated 35s ago"
