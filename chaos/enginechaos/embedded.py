"""The default target: a simulated engine in processes of its own, started and stopped here."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import httpx
import yaml

from enginechaos.errors import TargetError
from enginechaos.processes import Process, below, end, process, processes
from enginechaos.target import Limits, Target

_STARTS_WITHIN: Final = 30.0
DEFAULTS: Final[Mapping[str, Any]] = {"model": "demo-llama", "tensor_parallel": 2}
"""Of the engine that tests get unless they ask for another: two ranks, so that one can stop."""


class EmbeddedEngine:
    """One simulated engine. `started` is told of each process that is started."""

    def __init__(
        self,
        folder: Path,
        deployment: str,
        settings: Mapping[str, Any],
        started: Callable[[Process], None] = lambda _: None,
    ):
        folder.mkdir(parents=True, exist_ok=True)
        self._folder: Final = folder
        self._told: Final = started
        self._running: subprocess.Popen[str] | None = None
        port = settings.get("port") or free_port()
        self.settings: dict[str, Any] = {
            **DEFAULTS,
            "port": port,
            "log_file": str(folder / "engine.log"),
            "gpu_file": str(folder / "gpus.json"),
            **settings,
        }
        self._first: Final = dict(self.settings)
        base = f"http://127.0.0.1:{port}"
        self.target: Final = Target(
            name=f"simulated engine {deployment}",
            deployment=deployment,
            tier="sim",
            url=base,
            metrics_url=f"{base}/metrics",
            model=str(self.settings["model"]),
            table=self._table,
            runtime=str(self.settings.get("dialect", "vllm")),
            log_files=(Path(self.settings["log_file"]),),
            gpu_file=Path(self.settings["gpu_file"]),
            limits=Limits(fault_seconds=240.0),
            backups=folder / "backups",
            relauncher=self.relaunch,
        )

    def start(self) -> None:
        """Start it and wait until it answers. Raises TargetError."""
        config = self._folder / "sim.yml"
        config.write_text(yaml.safe_dump(self.settings, sort_keys=False), encoding="utf-8")
        errors = self._folder / "sim.err"
        with errors.open("a") as log:
            self._running = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-m", "enginechaos.sim", "--config", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                # Ctrl-C is the suite's: it undoes first, and then stops its processes.
                start_new_session=True,
            )
        found = process(self._running.pid)
        if found is not None:
            self._told(found)
        if not self._ready(self._running):
            said = errors.read_text(errors="replace")[-1_000:]
            self.stop()
            raise TargetError(f"the simulated engine did not start: {said}", where=str(config))

    def stop(self) -> None:
        """End it with all its ranks, stopped ones too."""
        running, self._running = self._running, None
        if running is None:
            return
        family = list(below(running.pid, processes()))
        end(running)
        for each in family:
            self.target.actor.signal(each, "KILL")

    def relaunch(self, **changes: object) -> None:
        """On the same port, with the settings that it was first started with, but for `changes`."""
        self.stop()
        self.settings = {**self._first, **changes}
        self.start()

    def _ready(self, running: subprocess.Popen[str]) -> bool:
        assert running.stdout is not None
        said, _, _ = select.select([running.stdout], [], [], _STARTS_WITHIN)
        if not said or not running.stdout.readline():
            return False
        deadline = time.monotonic() + _STARTS_WITHIN
        while time.monotonic() < deadline and running.poll() is None:
            try:
                if httpx.get(f"{self.target.url}/health", timeout=2, trust_env=False).is_success:
                    return True
            except httpx.HTTPError:
                pass
            time.sleep(0.1)
        return False

    def _table(self) -> list[Process]:
        if self._running is None:
            return []
        return list(below(self._running.pid, processes()))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port
