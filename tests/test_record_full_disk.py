"""A recording that can't be written any more: one error, and all that was recorded until then."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from tests.support.server import serve

from enginewatch.recording import ScrapeEvent, read_recording

LIMIT = 100_000
"""Bytes that a file may have, in place of a disk that is full."""

LIMITED = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, ({LIMIT}, {LIMIT}))
sys.argv[0] = "enginewatch"
from enginewatch.cli import main
main()
"""


async def metrics(_: Request) -> Response:
    """A page that compresses to little less than half of its 30 kB."""
    return PlainTextResponse("".join(f"a{n} {random.random()}\n" for n in range(1200)))


@pytest.mark.integration
@pytest.mark.parametrize("name", ["r.prom", "r.prom.gz", "r.prom.xz"])
def test_a_full_disk_ends_a_recording_and_loses_nothing_of_it(tmp_path: Path, name: str) -> None:
    with serve(Starlette(routes=[Route("/metrics", metrics)])) as url:
        command = [sys.executable, "-c", LIMITED, "record", url, "-o", name, "--interval", "200ms"]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=60
        )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        f"error: {name}: can't write: File too large"
        f" (what was recorded until then is in {name}.part)\n"
    )
    (kept,) = tmp_path.iterdir()
    events = list(read_recording(kept, tolerant=True))
    assert len(events) >= 3
    assert all(isinstance(event, ScrapeEvent) and event.body for event in events)
