"""How a child is ended: asked first, killed if it does not listen, and once."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from enginechaos.processes import GONE, end, process, stat

LISTENS = "print('up', flush=True); import time; time.sleep(600)"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {LISTENS}"


@pytest.mark.parametrize(
    ("code", "ended_by"), [(LISTENS, signal.SIGTERM), (DEAF, signal.SIGKILL)], ids=["asked", "deaf"]
)
def test_a_child_is_asked_first_and_killed_if_it_does_not_listen(
    code: str, ended_by: signal.Signals
) -> None:
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "up\n"
    found = process(child.pid)
    assert found is not None
    end(child, within=0.2 if code == DEAF else 30)
    assert child.returncode == -ended_by
    assert child.stdout.closed
    now = stat(found.pid)
    assert now is None or now.started != found.started or now.state in GONE
    end(child)
