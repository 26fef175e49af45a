"""The shipped rules pass their tests, here and in promtool, and both agree that they do."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from enginewatch.alerting.ruletest import run_test_files
from enginewatch.rulepack import rules_path

PROMTOOL = shutil.which("promtool")
TESTS = sorted(rules_path().rglob("*.test.yml"))


def test_there_are_tests() -> None:
    assert TESTS


@pytest.mark.slow
@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.name)
def test_the_pack_passes_here(path: Path) -> None:
    (result,) = run_test_files([path])
    assert result.cases
    assert not result.warnings
    assert result.passed, "\n".join(map(str, result.failures))


@pytest.mark.slow
@pytest.mark.skipif(PROMTOOL is None, reason="promtool is missing: apt-get install prometheus")
@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.name)
def test_the_pack_passes_in_promtool(path: Path) -> None:
    command = [str(PROMTOOL), "test", "rules", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, (done.stdout + done.stderr)[:6000]
