"""The parts of a GPU check: a real daemon with a receiver, and the ballast process it watches."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

RANK = "gpu-check-rank=0"

HEADROOM = """
groups:
  - name: gpu-check
    rules:
      - alert: GpuCheckHeadroom
        expr: gpu:memory_free_bytes:now / gpu:memory_total_bytes:now < 0.3
        labels: {verdict: headroom, severity: ticket}
        annotations: {summary: '{{ $value | humanizePercentage }} of GPU {{ $labels.gpu }} is free'}
"""
"""The check's own rule, so that an alert goes before the failure whatever the pack says. Its
verdict is its own too, or the page of the failure would wait for its group."""


class Hook:
    """A webhook receiver: every alert it was told of, with when."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        told = self.told

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                for alert in body["alerts"]:
                    told.append({"at": time.time(), **alert})
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Keep quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def first(self, alertname: str, status: str = "firing") -> float | None:
        """When it was first told of, in Unix seconds."""
        return next(
            (
                alert["at"]
                for alert in self.told
                if alert["labels"]["alertname"] == alertname and alert["status"] == status
            ),
            None,
        )


class Daemon:
    """`enginewatch run` over this machine."""

    def __init__(self, url: str):
        self._url = url

    def values(self, expr: str) -> dict[str, float]:
        """The value of each series of an expression now, by its labels as JSON."""
        with urlopen(f"{self._url}/api/v1/query?{urlencode({'query': expr})}", timeout=10) as reply:
            result = json.load(reply)["data"]["result"]
        return {json.dumps(one["metric"], sort_keys=True): float(one["value"][1]) for one in result}

    def value(self, expr: str) -> float | None:
        """Of the only series that an expression gives."""
        found = list(self.values(expr).values())
        return found[0] if len(found) == 1 else None


@contextlib.contextmanager
def daemon(folder: Path, hook: Hook, log: Path, simulation: Path | None) -> Iterator[Daemon]:
    """Started, and stopped at the end. `log` is the file whose lines it follows."""
    (folder / "headroom.yml").write_text(HEADROOM)
    config: dict[str, Any] = {
        "rule_files": ["shipped", "headroom.yml"],
        "nvml": {"deployment": "gpu-check", "slow_interval": "5s"},
        "processes": {
            "deployment": "gpu-check",
            "engines": [{"match": r"(?P<title>gpu-check-rank)=(?P<rank>[0-9]+)", "runtime": "own"}],
        },
        "logs": [{"files": [str(log)], "labels": {"deployment": "gpu-check"}}],
        "receivers": [{"name": "hook", "webhook_configs": [{"url": hook.url}]}],
        "storage": {"path": str(folder / "state")},
        "web": {"listen": "127.0.0.1:0"},
    }
    if simulation is not None:
        config["nvml"]["simulation"] = str(simulation)
    (folder / "enginewatch.yml").write_text(json.dumps(config))
    command = [sys.executable, "-u", "-m", "enginewatch", "run"]
    with (folder / "daemon.log").open("w") as errors:
        process = subprocess.Popen(
            [*command, "-c", str(folder / "enginewatch.yml")],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
            if "API at " not in first:
                raise RuntimeError(f"no daemon: {first} {(folder / 'daemon.log').read_text()}")
            yield Daemon(first.rsplit("API at ", 1)[1].strip())
        finally:
            process.terminate()
            process.wait(30)


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
