"""The parts of a GPU check: a real daemon with a receiver, and the ballast process it watches."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.support.daemon import Daemon, Engine, Hook, running, write_config
from tests.support.server import serve

RANK = "gpu-check-rank=0"


@contextlib.contextmanager
def daemon(folder: Path, hook: Hook, log: Path, simulation: Path | None) -> Iterator[Daemon]:
    """`enginewatch run` over this machine and a page of the deployment that its GPUs serve;
    stopped at the end. `log` is the file whose lines it follows."""
    with serve(Engine().app()) as engine, serve(hook.app()) as receiver:
        config: dict[str, Any] = {
            "scrape_configs": [
                {
                    "job_name": "gpu-check",
                    "deployment": "gpu-check",
                    "probe": {"enabled": False},
                    "static_configs": [{"targets": [engine.removeprefix("http://")]}],
                }
            ],
            "nvml": {"deployment": "gpu-check", "slow_interval": "5s"},
            "processes": {
                "deployment": "gpu-check",
                "engines": [
                    {"match": r"(?P<title>gpu-check-rank)=(?P<rank>[0-9]+)", "runtime": "own"}
                ],
            },
            "logs": [{"files": [str(log)], "labels": {"deployment": "gpu-check"}}],
            "receivers": [{"name": "hook", "webhook_configs": [{"url": f"{receiver}/hook"}]}],
            "route": {"receiver": "hook", "group_by": ["..."], "group_wait": "0s"},
            "storage": {"path": str(folder / "state")},
            "web": {"listen": "127.0.0.1:0"},
        }
        if simulation is not None:
            config["nvml"]["simulation"] = str(simulation)
        with running(write_config(folder / "enginewatch.yml", config)) as started:
            yield started
            started.stop()


class Ballast:
    """The process under watch, and what it answers."""

    def __init__(self, log: Path, simulation: Path | None):
        command = [sys.executable, "-u", str(Path(__file__).with_name("ballast.py")), RANK]
        command += ["--log", str(log)]
        if simulation is not None:
            command += ["--pretend", str(simulation)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.answers: list[dict[str, Any]] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def tell(self, what: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()

    def said(self, key: str) -> dict[str, Any] | None:
        return next((each for each in self.answers if key in each), None)

    def end(self) -> None:
        self.process.kill()
        self.process.wait(30)

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.answers.append(json.loads(line))


def until(probe: Callable[[], Any], seconds: float) -> Any:
    """The first answer of `probe` that is not None; None when there is none in time."""
    deadline = time.monotonic() + seconds
    while (found := probe()) is None and time.monotonic() < deadline:
        time.sleep(0.2)
    return found
