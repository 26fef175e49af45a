"""A real Prometheus server on loopback with given samples in it, asked over HTTP."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from enginewatch.model import METRIC_NAME, Labels, Millis, quote

INSTALLED = bool(shutil.which("prometheus") and shutil.which("promtool"))
MISSING = "needs prometheus and promtool: apt-get install prometheus"

FORM = {"Content-Type": "application/x-www-form-urlencoded"}

Series = dict[Labels, dict[Millis, float]]


class RealPrometheus:
    """The query API of a server. Answers map labels to values by time."""

    def __init__(self, connection: HTTPConnection):
        self._connection = connection

    def instant(self, expr: str, at: Millis) -> Series | str:
        """The answer, or the error's text. A scalar is a series without labels."""
        return self._ask("query", query=expr, time=f"{at / 1000:.3f}")

    def range(self, expr: str, start: Millis, end: Millis, step: Millis) -> Series | str:
        times = {"start": start, "end": end, "step": step}
        form = {name: f"{at / 1000:.3f}" for name, at in times.items()}
        return self._ask("query_range", query=expr, **form)

    def _ask(self, what: str, **form: str) -> Series | str:
        self._connection.request("POST", f"/api/v1/{what}", urlencode(form), FORM)
        answer = json.loads(self._connection.getresponse().read())
        if answer["status"] != "success":
            return str(answer["error"])
        return _series(answer["data"]["resultType"], answer["data"]["result"])


def _series(kind: str, result: Any) -> Series:
    if kind == "scalar":
        return {Labels(): dict([_sample(result)])}
    return {
        Labels(entry["metric"]): dict(map(_sample, entry.get("values") or [entry["value"]]))
        for entry in result
    }


def _sample(pair: Sequence[Any]) -> tuple[Millis, float]:
    return round(pair[0] * 1000), float(pair[1])


@contextlib.contextmanager
def real_prometheus(
    folder: Path, series: Iterable[tuple[Labels, Iterable[tuple[Millis, float]]]]
) -> Iterator[RealPrometheus]:
    """A server over blocks made of these samples; `folder` is for its files."""
    page, blocks, config = folder / "samples.txt", folder / "blocks", folder / "prometheus.yml"
    with page.open("w") as out:
        for labels, samples in series:
            inner = ",".join(f"{k}={quote(v)}" for k, v in labels.items() if k != METRIC_NAME)
            out.writelines(
                f"{labels.name}{{{inner}}} {_number(value)} {at / 1000:.3f}\n"
                for at, value in samples
            )
        out.write("# EOF\n")
    subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", page, blocks],
        check=True,
        capture_output=True,
        timeout=120,
    )
    config.write_text("global: {scrape_interval: 1h}\n")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with (folder / "prometheus.log").open("w") as log:
        server = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={config}",
                f"--storage.tsdb.path={blocks}",
                "--storage.tsdb.retention.time=100y",
                f"--web.listen-address=127.0.0.1:{port}",
                "--log.level=warn",
            ],
            stdout=log,
            stderr=log,
        )
        try:
            with contextlib.closing(HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
                _wait(connection, server)
                yield RealPrometheus(connection)
        finally:
            server.terminate()
            server.wait(30)


def _number(value: float) -> str:
    return {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}.get(repr(value), repr(value))


def _wait(connection: HTTPConnection, server: subprocess.Popen[bytes]) -> None:
    for _ in range(300):
        with contextlib.suppress(OSError):
            connection.request("GET", "/-/ready")
            answer = connection.getresponse()
            answer.read()
            if answer.status == 200:
                return
        connection.close()
        if server.poll() is not None:
            break
        time.sleep(0.1)
    raise RuntimeError("prometheus did not get ready")
