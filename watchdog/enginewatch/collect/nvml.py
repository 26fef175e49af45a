"""GPUs of this machine: what a helper process reads from the driver, once a second.

The driver may hang, and a call into it can't be taken back. So the helper has a
deadline; one that is overdue is killed, or left behind where the kernel does not let
it die, and another is started. Until a poll comes again, `enginewatch_nvml_hung` is 1.
"""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Final

import numpy as np

from enginewatch.collect.deadline import LagClock, within
from enginewatch.collect.rounds import Columns, Rounds
from enginewatch.config import NvmlConfig
from enginewatch.model import METRIC_NAME, Labels, Millis, Sample
from enginewatch.revive import keep_running
from enginewatch.store.head import Head

_log = logging.getLogger(__name__)

JOB: Final = "nvml"
PREFIX: Final = "enginewatch_nvml_"

_DRIVERS: Final = ("/dev/nvidiactl", "/dev/dxg", "/proc/driver/nvidia/version")
"""One of these is there where a driver is loaded; the second is Windows' subsystem for Linux."""
_LINE_LIMIT: Final = 8 << 20
_FIRST_WAIT: Final = 1.0
_LONGEST_WAIT: Final = 60.0
"""Seconds until another helper is started, doubled each time until one has polled."""
_LONGEST_WAIT_IN_HANG: Final = 15.0
"""The same while the driver hangs: that it is over must not be learned a minute late."""
_MOST_LEFT_BEHIND: Final = 3
"""Helpers that the kernel keeps; with as many no other is sent after them."""
_GRACE: Final = 2.0
"""Seconds that a killed helper gets to be gone."""


class End(Enum):
    """Why a helper is of no more use."""

    UNAVAILABLE = "there is no driver"
    OVERDUE = "a poll is overdue"
    DIED = "it ended"


class NvmlCollector:
    """Keeps one helper polling, and writes what it reads as `enginewatch_nvml_*`.

    `command` is the helper's, for tests. Two sources: what the helper says of GPUs, which
    ends when it hangs, and what is known of the helper, which goes on.
    """

    def __init__(
        self,
        config: NvmlConfig,
        head: Head,
        clock: Callable[[], Millis],
        *,
        deployment: str = JOB,
        command: Sequence[str] | None = None,
    ):
        self._config: Final = config
        self._clock: Final = clock
        self._deployment: Final = deployment
        self._command: Final = tuple(command or _command(config))
        self._readings: Final = Rounds(head, "nvml")
        self._status: Final = Rounds(head, "nvml helper")
        self._lag: Final = LagClock()
        self._tasks: list[asyncio.Task[None]] = []
        self._helper: subprocess.Popen[bytes] | None = None
        self._left_behind: list[subprocess.Popen[bytes]] = []
        self._series: list[Labels] = []
        self._columns: Columns | None = None
        self._known: dict[str, str] = {}
        self._present: set[str] = set()
        self._absent = False
        self._slowest_start: Millis | None = None
        self.available: bool = False
        self.hung: bool = False
        self.starts: int = 0

    def start(self) -> None:
        work = (self._lag.run, self._run, self._tell_status)
        self._tasks = [keep_running("nvml", each) for each in work]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._abandon()
        now = self._clock()
        self._readings.end(now)
        self._status.end(now)

    # The helper's life.

    async def _run(self) -> None:
        wait = _FIRST_WAIT
        while True:
            end, polls = await self._use_helper()
            await self._abandon()
            self.available = False
            self._present.clear()
            self._readings.write(self._clock(), ())
            if polls:
                wait = _FIRST_WAIT
            if end is End.UNAVAILABLE:
                wait = _LONGEST_WAIT
            else:
                self._absent = False
            await asyncio.sleep(wait)
            longest = _LONGEST_WAIT_IN_HANG if end is End.OVERDUE else _LONGEST_WAIT
            wait = min(2 * wait, longest)

    async def _use_helper(self) -> tuple[End, int]:
        """Start a helper and take its polls until it is of no more use; how many there were."""
        if self._config.simulation is None and not _driver_is_loaded():
            return self._unavailable("no NVIDIA driver is loaded"), 0
        if sum(one.poll() is None for one in self._left_behind) >= _MOST_LEFT_BEHIND:
            return End.OVERDUE, 0
        try:
            self._helper = await asyncio.to_thread(_spawn, self._command)
        except OSError as failure:
            _log.error("the GPU helper can't be started: %s", failure)
            return End.DIED, 0
        self.starts += 1
        reader = asyncio.StreamReader(limit=_LINE_LIMIT)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), self._helper.stdout
        )
        try:
            return await self._listen(reader)
        finally:
            transport.close()

    async def _listen(self, reader: asyncio.StreamReader) -> tuple[End, int]:
        polls = 0
        patience = self._start_patience()
        began = self._clock()
        while True:
            try:
                line = await within(patience / 1000, reader.readline(), self._lag)
                message = json.loads(line) if line else None
            except TimeoutError:
                if not self.hung:
                    _log.error("NVML hangs: no poll for %g s", patience / 1000)
                self.hung = True
                return End.OVERDUE, polls
            except ValueError:  # not JSON, or longer than any line may be
                message = None
            if not isinstance(message, dict):
                _log.warning("the GPU helper ended unasked")
                return End.DIED, polls
            if "unavailable" in message:
                return self._unavailable(str(message["unavailable"])), polls
            self.accept(message)
            if "values" in message:
                if not polls:
                    self._slowest_start = max(self._slowest_start or 0, self._clock() - began)
                polls += 1
                patience = self._config.interval + self._config.timeout

    def _start_patience(self) -> Millis:
        """For a first poll. How long one takes here is known once there was one; a helper that was
        sent into a hang would keep the rest of a minute from being seen, even when it is over."""
        longest = self._config.start_timeout
        if self._slowest_start is None:
            return longest
        return min(longest, 2 * self._slowest_start + self._config.timeout)

    def _unavailable(self, why: str) -> End:
        if not self._absent:
            _log.info("GPUs are not watched: %s", why)
        self._absent, self.hung = True, False
        return End.UNAVAILABLE

    async def _abandon(self) -> None:
        """Kill the helper. One that sleeps in the driver can't be killed, and is left behind."""
        helper, self._helper = self._helper, None
        self._left_behind = [one for one in self._left_behind if one.poll() is None]
        if helper is None:
            return
        helper.kill()
        if not await asyncio.to_thread(_gone, helper):
            _log.error("GPU helper %d can't be killed and is left behind", helper.pid)
            self._left_behind.append(helper)

    # What it says.

    def accept(self, message: dict[str, Any]) -> None:
        """A line of the helper's: the names of the series, or their values now."""
        if "series" in message:
            self._series = list(self._labelled(message["series"]))
            self._columns = None
        else:
            self._take(message)

    def _labelled(self, series: Any) -> Iterator[Labels]:
        for name, gpu, uuid, labels in series:
            if name == "up":
                self._known[uuid] = gpu
            deployment = self._config.deployment_of(gpu, uuid) or self._deployment
            yield Labels(
                {
                    **dict(labels),
                    METRIC_NAME: PREFIX + name,
                    "gpu": gpu,
                    "uuid": uuid,
                    **self._own(deployment),
                }
            )

    def _take(self, message: dict[str, Any]) -> None:
        values = np.array(message["values"], np.float64)
        if len(values) != len(self._series):
            return
        if self.hung:
            _log.warning("NVML answers again")
        self.available, self.hung = True, False
        self._present = {labels["uuid"] for labels in self._series if labels.name == f"{PREFIX}up"}
        at = self._clock()
        while self._columns is None or not self._readings.write_columns(at, self._columns, values):
            self._columns = self._readings.columns(self._series)

    async def _tell_status(self) -> None:
        while True:
            self._status.write(self._clock(), self._status_samples())
            await asyncio.sleep(self._config.interval / 1000)

    def _status_samples(self) -> Iterator[Sample]:
        own = self._own(self._config.deployment or self._deployment)

        def sample(name: str, value: float, **labels: str) -> Sample:
            return Sample(Labels({METRIC_NAME: PREFIX + name, **own, **labels}), value)

        yield sample("available", float(self.available))
        yield sample("hung", float(self.hung))
        yield sample("helper_starts_total", self.starts)
        yield sample("helpers_left_behind", len(self._left_behind))
        if self._config.gpus is not None:
            yield sample("gpus_expected", self._config.gpus)
        if self.available:
            yield sample("gpus", len(self._present))
        if not self.available and not self._absent:
            return  # whether a GPU is there can't be told now
        for uuid, gpu in self._known.items():
            if uuid not in self._present:
                deployment = self._config.deployment_of(gpu, uuid) or self._deployment
                yield sample("up", 0.0, gpu=gpu, uuid=uuid, deployment=deployment)

    def _own(self, deployment: str) -> dict[str, str]:
        return {"job": JOB, "instance": self._config.instance, "deployment": deployment}


def _driver_is_loaded() -> bool:
    return any(Path(path).exists() for path in _DRIVERS)


def _command(config: NvmlConfig) -> list[str]:
    command = [
        sys.executable,
        *("-m", "enginewatch.nvml"),
        *("--interval", str(config.interval / 1000)),
        *("--slow-interval", str(config.slow_interval / 1000)),
    ]
    if config.simulation is not None:
        command += ["--simulation", str(config.simulation)]
    return command


def _spawn(command: Sequence[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - our own program
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True
    )


def _gone(helper: subprocess.Popen[bytes]) -> bool:
    try:
        helper.wait(_GRACE)
    except subprocess.TimeoutExpired:
        return False
    return True
