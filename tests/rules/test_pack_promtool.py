"""Prometheus itself accepts every file of the pack. (Its unit tests run in tests/alerting.)"""

from __future__ import annotations

import shutil
import subprocess

import pytest

from enginewatch.rulepack import rule_files

PROMTOOL = shutil.which("promtool")


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is missing: apt-get install prometheus")
def test_promtool_finds_nothing_wrong() -> None:
    command = [str(PROMTOOL), "check", "rules", "--lint=all", "--lint-fatal"]
    done = subprocess.run(
        [*command, *map(str, rule_files())],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("SUCCESS") == len(rule_files())
