"""GPUs out of a file, behind the interface of `pynvml`: for tests, and where there is no GPU.

```json
{"driver": "580.159.04", "cuda": 13000,
 "gpus": [{"uuid": "GPU-1", "memory": {"total": 150, "used": 1, "reserved": 1}, "power": 128000}],
 "hang": false,
 "events": [{"id": 1, "gpu": 0, "xid": 79}]}
```

A GPU has the values of `DEFAULT` where the file says nothing else. A value of null, or
the name of an error such as "GPU_IS_LOST", is what that call answers; `"lost": true`
makes all of them fail. The file is read again when it changes, so a fault can be
injected by writing it; an event counts once, by its `id`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pynvml

_PACE: Final = 0.02
"""Seconds between looks at the file while an event is waited for."""

DEFAULT: Final[Mapping[str, Any]] = {
    "name": "NVIDIA H200",
    "capability": [9, 0],
    "bus_id": "00000000:00:06.0",
    "memory": {"total": 150754820096, "reserved": 644939776, "used": 0},
    "utilization": {"gpu": 0, "memory": 0},
    "power": 128127,
    "power_limit": 700000,
    "clocks_event": 1,
    "sm_clock": 405,
    "temperature": 36,
    "slowdown": 89,
    "ecc": [[0, 0], [0, 0]],
    "remapped_rows": [0, 0, 0, 0],
    "processes": [],
    "pcie_replays": 0,
    "pcie_link": [16, 16, 5, 5],
    "nvlink": None,
    "nvlink_errors": None,
    "remap_banks": {"max": 3072, "high": 0, "partial": 0, "low": 0, "none": 0},
    "recovery_action": 0,
}
"""An H200 at rest, as read from one; it was alone in a virtual machine, so without NVLink.

Power is in milliwatts and clocks are in MHz, as NVML gives them. `ecc` is by severity,
then volatile and aggregate."""


class Simulation:
    """Has the functions and constants of `pynvml` that `readings` and `poller` use."""

    def __init__(self, script: Path):
        self._script: Final = script
        self._read_at = -1
        self._state: Mapping[str, Any] = {}
        self._seen: set[Any] = set()

    def __getattr__(self, name: str) -> Any:
        """Constants and errors are the real ones."""
        if name.startswith("nvml") and callable(getattr(pynvml, name, None)):
            raise AttributeError(f"{name} is not simulated")
        return getattr(pynvml, name)

    def nvmlInit(self) -> None:
        self._now()

    def nvmlDeviceGetCount(self) -> int:
        return len(self._now()["gpus"])

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        self._gpu(index)
        return index

    def nvmlSystemGetDriverVersion(self) -> str:
        return str(self._now().get("driver", "580.159.04"))

    def nvmlSystemGetCudaDriverVersion(self) -> int:
        return int(self._now().get("cuda", 13000))

    def nvmlDeviceGetUUID(self, gpu: int) -> str:
        return str(self._gpu(gpu).get("uuid", f"GPU-{gpu}"))

    def nvmlDeviceGetName(self, gpu: int) -> str:
        return str(self._value(gpu, "name"))

    def nvmlDeviceGetPciInfo(self, gpu: int) -> Any:
        return SimpleNamespace(busId=self._value(gpu, "bus_id"))

    def nvmlDeviceGetCudaComputeCapability(self, gpu: int) -> Any:
        return self._value(gpu, "capability")

    def nvmlDeviceGetMemoryInfo(self, gpu: int, version: int | None = None) -> Any:
        given = {"reserved": 0, **self._value(gpu, "memory")}
        free = given["total"] - given["used"] - given["reserved"]
        if version is None:
            given["used"] += given["reserved"]
        return SimpleNamespace(**{"free": free, **given})

    def nvmlDeviceGetUtilizationRates(self, gpu: int) -> Any:
        return SimpleNamespace(**self._value(gpu, "utilization"))

    def nvmlDeviceGetPowerUsage(self, gpu: int) -> Any:
        return self._value(gpu, "power")

    def nvmlDeviceGetEnforcedPowerLimit(self, gpu: int) -> Any:
        return self._value(gpu, "power_limit")

    def nvmlDeviceGetCurrentClocksEventReasons(self, gpu: int) -> Any:
        return self._value(gpu, "clocks_event")

    def nvmlDeviceGetClockInfo(self, gpu: int, _: int) -> Any:
        return self._value(gpu, "sm_clock")

    def nvmlDeviceGetTemperature(self, gpu: int, _: int) -> Any:
        return self._value(gpu, "temperature")

    def nvmlDeviceGetTemperatureThreshold(self, gpu: int, _: int) -> Any:
        return self._value(gpu, "slowdown")

    def nvmlDeviceGetTotalEccErrors(self, gpu: int, severity: int, counter: int) -> Any:
        return self._value(gpu, "ecc")[severity][counter]

    def nvmlDeviceGetRemappedRows(self, gpu: int) -> Any:
        return self._value(gpu, "remapped_rows")

    def nvmlDeviceGetComputeRunningProcesses(self, gpu: int) -> Any:
        found = self._value(gpu, "processes")
        return [SimpleNamespace(pid=one["pid"], usedGpuMemory=one["memory"]) for one in found]

    def nvmlDeviceGetPcieReplayCounter(self, gpu: int) -> Any:
        return self._value(gpu, "pcie_replays")

    def nvmlDeviceGetCurrPcieLinkWidth(self, gpu: int) -> Any:
        return self._value(gpu, "pcie_link")[0]

    def nvmlDeviceGetMaxPcieLinkWidth(self, gpu: int) -> Any:
        return self._value(gpu, "pcie_link")[1]

    def nvmlDeviceGetCurrPcieLinkGeneration(self, gpu: int) -> Any:
        return self._value(gpu, "pcie_link")[2]

    def nvmlDeviceGetMaxPcieLinkGeneration(self, gpu: int) -> Any:
        return self._value(gpu, "pcie_link")[3]

    def nvmlDeviceGetNvLinkState(self, gpu: int, link: int) -> Any:
        return self._link(gpu, "nvlink", link)

    def nvmlDeviceGetNvLinkErrorCounter(self, gpu: int, link: int, counter: int) -> Any:
        return self._link(gpu, "nvlink_errors", link)[counter]

    def nvmlDeviceGetRowRemapperHistogram(self, gpu: int) -> Any:
        return SimpleNamespace(**self._value(gpu, "remap_banks"))

    def nvmlDeviceGetFieldValues(self, gpu: int, fields: list[int]) -> Any:
        value = SimpleNamespace(uiVal=self._value(gpu, "recovery_action"))
        return [SimpleNamespace(nvmlReturn=0, value=value) for _ in fields]

    # Events.

    def nvmlEventSetCreate(self) -> str:
        return "events"

    def nvmlDeviceGetSupportedEventTypes(self, gpu: int) -> int:
        self._gpu(gpu)
        return 65439

    def nvmlDeviceRegisterEvents(self, gpu: int, kinds: int, events: str) -> None:
        """All that the file tells of come, whatever was registered."""

    def nvmlEventSetWait_v2(self, _: str, milliseconds: int) -> Any:
        end = time.monotonic() + milliseconds / 1000
        while True:
            for event in self._now().get("events", ()):
                if event["id"] not in self._seen:
                    self._seen.add(event["id"])
                    return _event(event)
            left = end - time.monotonic()
            if left <= 0:
                raise self.NVMLError(self.NVML_ERROR_TIMEOUT)
            time.sleep(min(left, _PACE))

    # The file.

    def _now(self) -> Mapping[str, Any]:
        changed = self._script.stat().st_mtime_ns
        if changed != self._read_at:
            self._read_at, self._state = changed, json.loads(self._script.read_text("utf-8"))
        while self._state.get("hang"):
            time.sleep(3600)
        return self._state

    def _gpu(self, index: int) -> Mapping[str, Any]:
        gpus = self._now()["gpus"]
        if index >= len(gpus):
            raise self.NVMLError(self.NVML_ERROR_INVALID_ARGUMENT)
        found: Mapping[str, Any] = gpus[index]
        if found.get("lost"):
            raise self.NVMLError(self.NVML_ERROR_GPU_IS_LOST)
        return found

    def _value(self, index: int, name: str) -> Any:
        value = {**DEFAULT, **self._gpu(index)}[name]
        if value is None:
            raise self.NVMLError(self.NVML_ERROR_NOT_SUPPORTED)
        code = getattr(pynvml, f"NVML_ERROR_{value}", None) if isinstance(value, str) else None
        if code is not None:
            raise self.NVMLError(code)
        return value

    def _link(self, index: int, name: str, link: int) -> Any:
        links = self._value(index, name)
        if link >= len(links):
            raise self.NVMLError(self.NVML_ERROR_INVALID_ARGUMENT)
        return links[link]


def _event(event: Mapping[str, Any]) -> Any:
    kind = pynvml.nvmlEventTypeXidCriticalError if "xid" in event else event["type"]
    return SimpleNamespace(device=event["gpu"], eventType=kind, eventData=event.get("xid", 0))
