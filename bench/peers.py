"""Starting the two sides of a comparison as processes, and reading their cost from /proc."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import psutil
import yaml

from bench.fleet import PORT, address

READY_WITHIN = 180


@dataclass(frozen=True)
class Peer:
    """A monitor under test: its process, its API, and how it names the time its rules took."""

    name: str
    process: subprocess.Popen[bytes]
    api: str
    rule_seconds: str

    def query(self, expr: str) -> list[dict[str, Any]]:
        with urlopen(f"{self.api}/api/v1/query?{urlencode({'query': expr})}", timeout=30) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
            return found

    def number(self, expr: str) -> float:
        """The value of the single series that `expr` gives, NaN where there is none."""
        found = self.query(expr)
        return float(found[0]["value"][1]) if found else float("nan")

    def cpu_seconds(self) -> float:
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)

    def rss_mib(self) -> float:
        return float(psutil.Process(self.process.pid).memory_info().rss) / (1 << 20)


@contextmanager
def fleet(engines: int) -> Iterator[None]:
    """Synthetic engines in a process of their own; see `bench.fleet`."""
    command = [sys.executable, "-m", "bench.fleet", "--engines", str(engines)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        if process.stdout.readline() != b"ready\n":
            raise SystemExit("the synthetic fleet did not start")
        yield
    finally:
        _stop(process)


def _targets(engines: int) -> list[str]:
    return [f"{address(n)}:{PORT}" for n in range(engines)]


@contextmanager
def prometheus(engines: int, rules: Sequence[Path], port: int = 18_900) -> Iterator[Peer]:
    """Debian's Prometheus on the fleet with these rule files, both every 5 s."""
    binary = shutil.which("prometheus")
    if binary is None:
        raise SystemExit("the comparison needs Prometheus: apt-get install prometheus")
    with tempfile.TemporaryDirectory() as folder:
        config = {
            "global": {"scrape_interval": "5s", "evaluation_interval": "5s"},
            "rule_files": [str(path) for path in rules],
            "scrape_configs": [
                {"job_name": "self", "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]},
                _job(engines),
            ],
        }
        path = Path(folder, "prometheus.yml")
        path.write_text(yaml.safe_dump(config))
        command = [
            binary,
            f"--config.file={path}",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=error",
        ]
        rule_seconds = "sum(prometheus_rule_group_last_duration_seconds)"
        with _running("Prometheus", command, port, rule_seconds, Path(folder)) as peer:
            yield peer


@contextmanager
def enginewatch(engines: int, rules: Sequence[Path], port: int = 18_901) -> Iterator[Peer]:
    """The daemon on the same fleet with the same rules, as often."""
    with tempfile.TemporaryDirectory() as folder:
        config = {
            "global": {"scrape_interval": "5s", "evaluation_interval": "5s"},
            "rule_files": [str(path) for path in rules],
            "scrape_configs": [_job(engines)],
            "receivers": [],
            "storage": {"path": f"{folder}/state"},
            "web": {"listen": f"127.0.0.1:{port}"},
        }
        path = Path(folder, "enginewatch.yml")
        path.write_text(yaml.safe_dump(config))
        command = [sys.executable, "-m", "enginewatch", "run", "-c", str(path)]
        rule_seconds = "sum(enginewatch_rule_group_last_duration_seconds)"
        with _running("enginewatch", command, port, rule_seconds, Path(folder)) as peer:
            yield peer


def _job(engines: int) -> dict[str, Any]:
    labels = {"deployment": "bench"}
    return {
        "job_name": "fleet",
        "static_configs": [{"targets": _targets(engines), "labels": labels}],
    }


@contextmanager
def _running(
    name: str, command: list[str], port: int, rule_seconds: str, folder: Path
) -> Iterator[Peer]:
    told = folder / "output.txt"
    with told.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    peer = Peer(name, process, f"http://127.0.0.1:{port}", rule_seconds)
    try:
        deadline = time.monotonic() + READY_WITHIN
        while True:
            if process.poll() is not None:
                said = told.read_text(errors="replace")[-2000:]
                raise SystemExit(f"{name} ended with code {process.returncode}:\n{said}")
            try:
                with urlopen(f"{peer.api}/-/ready", timeout=1):
                    break
            except OSError:
                if time.monotonic() > deadline:
                    raise SystemExit(f"{name} was not ready in {READY_WITHIN} s") from None
                time.sleep(0.1)
        yield peer
    finally:
        _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
