"""Debian's Alertmanager, run for real: what it takes from us and what it then tells."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.error import URLError
from urllib.request import urlopen

import yaml

BINARY: Final = shutil.which("prometheus-alertmanager")
AMTOOL: Final = shutil.which("amtool")
WITHIN: Final = 30.0


@contextlib.contextmanager
def alertmanager(folder: Path, hook: str) -> Iterator[str]:
    """The URL of an Alertmanager that tells `hook` of everything at once."""
    assert BINARY is not None
    config = folder / "alertmanager.yml"
    route = {
        "receiver": "hook",
        "group_by": ["alertname"],
        "group_wait": "10ms",
        "group_interval": "100ms",
    }
    receivers = [{"name": "hook", "webhook_configs": [{"url": hook, "send_resolved": True}]}]
    config.write_text(yaml.safe_dump({"route": route, "receivers": receivers}))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(
        [
            BINARY,
            f"--config.file={config}",
            f"--storage.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--cluster.listen-address=",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(f"{url}/-/ready")
        yield url
    finally:
        process.kill()
        process.wait(WITHIN)


def get(url: str) -> Any:
    with urlopen(url, timeout=WITHIN) as answer:
        return json.load(answer)


def _wait_for(url: str) -> None:
    deadline = time.monotonic() + WITHIN
    while True:
        try:
            with urlopen(url, timeout=WITHIN):
                return
        except (URLError, OSError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
