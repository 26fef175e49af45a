"""What is seen while ranks stall: alerts, the ranks' lines and ends, GPUs, NCCL's RAS."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from chaos.gpu.group import Group, StallError

from chaos.gpu import ras
from enginechaos.errors import WatchdogError
from enginechaos.watchdog import ELSEWHERE, StartedWatchdog, write_settings

DEPLOYMENT: Final = "stalled"
_COMMAND: Final = r"(?P<title>chaos\.gpu\.ranks) --rank=(?P<rank>[0-9]+)"
_OTHERS: Final = r"^VLLM::\S+\s*$"
"""Ranks that are not ours: those name their port."""
_LOOK: Final = 0.25
_SLOW: Final = 1.0
"""Seconds between looks at GPUs."""
_RAS: Final = 8.0
SAID: Final = re.compile(
    r"(?i)time[d ]*out|connection (?:closed|reset)|watchdog|heartbeat|abort|error:|NCCL WARN|dump"
)
"""Lines with which a backend speaks of a stall."""


def watchdog(group: Group, folder: Path, gpus: int) -> StartedWatchdog:
    """The real daemon over the group, with its own defaults, started. Raises WatchdogError."""
    labels = {"deployment": DEPLOYMENT}
    instance = f"127.0.0.1:{group.port}"
    target = {"targets": [instance], "labels": labels}
    settings = {
        "scrape_configs": [{"job_name": "gpu", "runtime": "vllm", "static_configs": [target]}],
        "logs": [
            {"files": [str(group.log(r))], "labels": {**labels, "instance": instance}}
            for r in range(group.size)
        ],
        # Where the kernel lets no process change its title, the command line tells.
        "processes": {
            "deployment": ELSEWHERE,
            "engines": [
                {"match": _COMMAND, "runtime": "vllm", "deployment": DEPLOYMENT},
                {"match": _OTHERS, "runtime": "other", "deployment": ELSEWHERE},
            ],
        },
        "nvml": {"deployment": DEPLOYMENT} if gpus else {"enabled": False},
        "nccl_ras": {"deployment": DEPLOYMENT},
        "receivers": [{"name": "nobody"}],
        "route": {"receiver": "nobody"},
        "storage": {"path": str(folder / "data")},
        "web": {"listen": "127.0.0.1:0"},
    }
    started = StartedWatchdog(write_settings(settings, folder))
    started.start()
    return started


class Observer:
    """Looks four times a second and writes down what is new, in seconds after `began`."""

    def __init__(self, group: Group, watch: StartedWatchdog, *, gpus: int, nccl: bool):
        self._group: Final = group
        self._watch: Final = watch
        self._gpus: Final = gpus
        self._nccl: Final = nccl
        self._read: Final = [group.log(rank).stat().st_size for rank in range(group.size)]
        self._slow = 0.0
        self._asked: threading.Thread | None = None
        self._ask_at = 0.0
        self.began = time.time()
        self.alerts: Final[dict[tuple[str, str], dict[str, Any]]] = {}
        self.before: set[tuple[str, str]] = set()
        self.said: Final[list[dict[str, Any]]] = []
        self.ended: Final[dict[int, float]] = {}
        self.gpu: Final[list[dict[str, Any]]] = []
        self.ras: Final[list[dict[str, Any]]] = []

    def steady(self, seconds: float, patience: float = 60.0) -> None:
        """Wait until the engine is seen to work, and so for `seconds`. Raises StallError."""
        ends = time.monotonic() + patience
        while (self._value("engine:progress_signals:window_count") or 0) < 1:
            if time.monotonic() > ends:
                raise StallError("the watchdog sees no steps; its log says why")
            time.sleep(_LOOK)
        self.watch(seconds)
        loud = [name for (name, _), alert in self.alerts.items() if "firing_after" in alert]
        if any(self._verdict(name) in ("collective_hang", "stuck_engine") for name in loud):
            raise StallError(f"not steady before anything was done: {', '.join(loud)} fires")

    def inject(self) -> None:
        """Now: what comes after is counted from here."""
        self.before = {key for key, alert in self.alerts.items() if "resolved_after" not in alert}
        self.alerts.clear()
        self.began = time.time()

    def watch(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends and not until():
            self._look()
            time.sleep(_LOOK)

    @property
    def after(self) -> float:
        return round(time.time() - self.began, 2)

    def found(self) -> dict[str, Any]:
        """Everything since `inject`, as JSON."""
        return {
            "alerts": list(self.alerts.values()),
            "said": [line for line in self.said if line["after"] >= 0],
            "ended": dict(self.ended),
            "gpu": self.gpu,
            "ras": self.ras,
        }

    def _look(self) -> None:
        self._look_at_logs()
        for rank in range(self._group.size):
            if rank not in self.ended and not self._group.lives(rank):
                self.ended[rank] = self.after
        self._look_at_alerts()
        if self._gpus and time.monotonic() >= self._slow:
            self._slow = time.monotonic() + _SLOW
            self._look_at_gpus()
        if self._nccl and time.monotonic() >= self._ask_at:
            self._ask_at = time.monotonic() + _RAS
            self._ask()

    def _look_at_logs(self) -> None:
        for rank in range(self._group.size):
            with self._group.log(rank).open("rb") as log:
                log.seek(self._read[rank])
                whole, newline, _ = log.read().rpartition(b"\n")
            self._read[rank] += len(whole) + len(newline)
            for line in whole.decode(errors="replace").splitlines():
                if SAID.search(line):
                    self.said.append({"rank": rank, "after": self.after, "line": line})

    def _look_at_alerts(self) -> None:
        try:
            seen = self._watch.alerts(DEPLOYMENT)
        except WatchdogError:
            return
        after, present = self.after, set()
        for each in seen:
            key = (each.name, each.labels.get("rank", ""))
            present.add(key)
            if key in self.before:
                continue
            alert = self.alerts.setdefault(
                key,
                {
                    "name": each.name,
                    "verdict": each.verdict,
                    "severity": each.labels.get("severity", ""),
                    "rank": key[1],
                    "pending_after": after,
                },
            )
            if each.state == "firing":
                alert.setdefault("firing_after", after)
        self.before &= present
        for key, alert in self.alerts.items():
            if key not in present:
                alert.setdefault("resolved_after", after)

    def _look_at_gpus(self) -> None:
        for gpu in range(self._gpus):
            row: dict[str, Any] = {"after": self.after, "gpu": gpu}
            for name, series in (
                ("utilization", "utilization:ratio"),
                ("watts", "power_watts:now"),
                ("limit", "power_limit_watts:now"),
            ):
                row[name] = self._value(f'gpu:{series}{{gpu="{gpu}"}}')
            self.gpu.append(row)

    def _ask(self) -> None:
        """In a thread: where a rank is stopped, NCCL itself takes seconds."""
        if self._asked is not None and self._asked.is_alive():
            return

        def ask() -> None:
            for settings in ((), ras.JSON):
                asked = self.after
                try:
                    text = ras.report(settings=settings)
                except OSError as failure:
                    text = f"(no answer: {failure})"
                took = round(self.after - asked, 2)
                row = {"after": asked, "took": took, "settings": settings, "text": text}
                self.ras.append(row)

        self._asked = threading.Thread(target=ask, name="ras", daemon=True)
        self._asked.start()

    def _value(self, expr: str) -> float | None:
        try:
            return self._watch.value(expr)
        except WatchdogError:
            return None

    def _verdict(self, name: str) -> str:
        return next((str(a["verdict"]) for a in self.alerts.values() if a["name"] == name), "")
