"""Looks at this very machine's processes: whose a rank is, and stays when its server has gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from enginewatch.collect.process_identity import Pattern
from enginewatch.collect.process_look import Looker
from enginewatch.model import Labels, compile_re2

pytestmark = pytest.mark.integration

SERVER = """
import subprocess, sys, time
rank = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)", sys.argv[1]])
print(rank.pid, flush=True)
time.sleep(600)
"""
THEIRS = Labels(job="j", instance="localhost:8123", runtime="own")
OURS = Labels(job="j", instance="localhost:8124", runtime="own")


@pytest.fixture
def mark(tmp_path: Path) -> str:
    return f"look-at-{tmp_path.name}-{os.getpid()}"


@pytest.fixture
def server(mark: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A server on port 8123 with one rank, and the rank's pid."""
    command = [sys.executable, "-S", "-c", SERVER, f"{mark}=0", "--port", "8123"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        rank = int(running.stdout.readline())
        yield running, rank
        running.kill()
        os.kill(rank, signal.SIGKILL)


@pytest.mark.parametrize("told", [THEIRS, None], ids=["its server is watched", "it is not"])
def test_an_orphan_stays_with_its_engine_and_is_not_taken_for_the_only_other_one(
    mark: str, server: tuple[subprocess.Popen[str], int], told: Labels | None
) -> None:
    running, rank = server
    looker = Looker([Pattern(compile_re2(f"(?P<title>{mark})=0$"), "own", "worker", None)])
    targets = {8124: OURS} if told is None else {8123: THEIRS, 8124: OURS}

    def owner() -> Labels | None:
        (found,) = [seen for seen in looker.scan(targets) if seen.stat.pid == rank]
        return found.target

    assert owner() == told
    running.kill()
    running.wait()
    deadline = time.monotonic() + 30
    while Path(f"/proc/{rank}/stat").read_text().split()[3] == str(running.pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert owner() == told
    targets.pop(8123, None)
    assert owner() == told
