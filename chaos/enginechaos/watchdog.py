"""The watchdog under test: started from its command line, or one that runs; asked over HTTP."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import yaml

from enginechaos.errors import WatchdogError
from enginechaos.processes import Process, end, process
from enginechaos.receivers import Receivers
from enginechaos.target import Target

JOB: Final = "chaos"
ELSEWHERE: Final = "not-under-test"
"""The deployment of engines of this machine that are none of ours."""
_STARTS_WITHIN: Final = 30.0
_ANSWERS_WITHIN: Final = 5.0


@dataclass(frozen=True)
class Seen:
    """An alert as the watchdog's API shows it. `active_at` is when it became pending."""

    labels: Mapping[str, str]
    state: str
    active_at: str

    @property
    def name(self) -> str:
        return self.labels.get("alertname", "")

    @property
    def verdict(self) -> str:
        return self.labels.get("verdict", "")

    @property
    def key(self) -> tuple[tuple[str, str], ...]:
        return tuple(sorted(self.labels.items()))


class Watchdog:
    """A running watchdog at `url`. Its methods raise WatchdogError when it does not answer."""

    def __init__(self, url: str):
        self.url = url
        self._client = httpx.Client(timeout=_ANSWERS_WITHIN, trust_env=False)

    def alerts(self, deployment: str) -> list[Seen]:
        """Pending and firing ones of a deployment."""
        return [
            Seen(each["labels"], each["state"], each["activeAt"])
            for each in self._get("/api/v1/alerts")["data"]["alerts"]
            if each["labels"].get("deployment") == deployment
        ]

    def targets(self) -> list[dict[str, Any]]:
        """In Prometheus' words: `labels`, `health`, `lastError`."""
        found: list[dict[str, Any]] = self._get("/api/v1/targets")["data"]["activeTargets"]
        return found

    def value(self, expr: str) -> float | None:
        """The largest value that an expression has now; None where it has none."""
        result = self._get("/api/v1/query", query=expr)["data"]["result"]
        return max((float(each["value"][1]) for each in result), default=None)

    def version(self) -> str:
        return str(self._get("/api/v1/status/buildinfo")["data"].get("version", "unknown"))

    def stop(self) -> None:
        self._client.close()

    def _get(self, path: str, **params: str) -> dict[str, Any]:
        try:
            answer = self._client.get(f"{self.url}{path}", params=params)
            answer.raise_for_status()
            found: dict[str, Any] = answer.json()
        except (httpx.HTTPError, ValueError) as failure:
            said = str(failure).splitlines()[0] if str(failure) else type(failure).__name__
            raise WatchdogError(f"the watchdog does not answer: {said}", where=self.url) from None
        return found


class StartedWatchdog(Watchdog):
    """`python -m enginewatch run -c FILE`, in a process of its own, of which `started` is told.

    `kill` and `start` bring it back with what it had saved; `url` is another then.
    """

    def __init__(self, config: Path, started: Callable[[Process], None] = lambda _: None):
        super().__init__("")
        self._told: Final = started
        self.config: Final = config
        self.log: Final = config.with_suffix(".log")
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it and wait until it listens. Raises WatchdogError."""
        command = [sys.executable, "-m", "enginewatch", "run", "-c", str(self.config)]
        with self.log.open("a") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                stdin=subprocess.DEVNULL,
                text=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                # Ctrl-C is the suite's: it undoes first, and then stops its processes.
                start_new_session=True,
            )
        self._told(self.process)
        line = self._first_line(self._process)
        if "API at " not in line:
            self.kill()
            said = [line.strip(), *self.log.read_text(errors="replace").strip().splitlines()]
            raise WatchdogError(
                f"the watchdog did not start: {said[-1] or 'it said nothing'}",
                where=str(self.config),
                hint=f"the rest is in {self.log}",
            )
        self.url = line.rsplit("API at ", 1)[1].strip()

    @property
    def process(self) -> Process:
        found = process(self._process.pid) if self._process is not None else None
        if found is None:
            raise WatchdogError("the watchdog is not running", where=str(self.log))
        return found

    def kill(self) -> None:
        """SIGKILL, as a crash would end it."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        super().stop()
        self._end(signal.SIGTERM)

    def _end(self, with_signal: signal.Signals) -> None:
        running, self._process = self._process, None
        if running is not None:
            end(running, with_signal)

    def _first_line(self, running: subprocess.Popen[str]) -> str:
        lines: queue.Queue[str] = queue.Queue()

        def read() -> None:
            assert running.stdout is not None
            with running.stdout as out:
                for line in out:
                    lines.put(line)
            lines.put("")

        threading.Thread(target=read, name="watchdog-output", daemon=True).start()
        try:
            return lines.get(timeout=_STARTS_WITHIN)
        except queue.Empty:
            return f"nothing said within {_STARTS_WITHIN:g} s\n"


def settings_for(target: Target, receivers: Receivers, folder: Path) -> dict[str, Any]:
    """A configuration for a watchdog of `target`: intervals are the product's own defaults."""
    url = httpx.URL(target.metrics_url)
    labels = {"deployment": target.deployment}
    settings: dict[str, Any] = {
        "scrape_configs": [
            {
                "job_name": JOB,
                "runtime": target.runtime,
                "scheme": url.scheme,
                "metrics_path": url.path,
                "static_configs": [{"targets": [target.instance], "labels": labels}],
            }
        ],
        "receivers": [receivers.settings("under-test"), {"name": "nobody"}],
        # What another engine of this machine does is nobody's page here.
        "route": {
            "receiver": "nobody",
            "routes": [
                {
                    "receiver": "under-test",
                    "matchers": [f'deployment="{target.deployment}"'],
                }
            ],
        },
        "processes": {"deployment": ELSEWHERE},
        "storage": {"path": str(folder / "watchdog-data")},
        "web": {"listen": "127.0.0.1:0"},
    }
    if target.log_files:
        files = [str(path) for path in target.log_files]
        settings["logs"] = [{"files": files, "labels": {**labels, "instance": target.instance}}]
    if target.gpu_file is not None:
        settings["nvml"] = {"simulation": str(target.gpu_file), "deployment": target.deployment}
    return settings


def write_settings(settings: Mapping[str, Any], folder: Path) -> Path:
    """As `enginewatch.yml` in `folder`, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "enginewatch.yml"
    path.write_text(yaml.safe_dump(dict(settings), sort_keys=False), encoding="utf-8")
    return path
