"""Rounds of readings from all GPUs of this machine, and the events between them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from enginewatch.nvml.readings import READINGS, Nvml, Pairs, Reading, Value

Key = tuple[str, str, str, Pairs]
"""A series: name without prefix, GPU index, UUID, other labels."""

MOST_XIDS: Final = 32
"""Different Xid codes of a GPU that get a series each."""

EVENTS: Final = "events"
QUICK: Final = tuple(reading for reading in READINGS if not reading.slow)
SLOW: Final = tuple(reading for reading in READINGS if reading.slow)
NAMES: Final = (*(reading.name for reading in READINGS), EVENTS)

_EVENTS: Final = (
    ("xid", "nvmlEventTypeXidCriticalError"),
    ("single_bit_ecc", "nvmlEventTypeSingleBitEccError"),
    ("double_bit_ecc", "nvmlEventTypeDoubleBitEccError"),
    ("recovery_action", "nvmlEventTypeGpuRecoveryAction"),
)


@dataclass(slots=True)
class Gpu:
    """What is known of one GPU. `slow` are the values of the slow lane's last turn."""

    index: int
    uuid: str
    handle: Any
    up: bool = True
    slow: list[Value] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    errors: dict[str, int] = field(default_factory=dict)
    events: dict[str, int] = field(default_factory=dict)
    xids: dict[int, tuple[float, float]] = field(default_factory=dict)
    """By code: how often, and when last in Unix seconds."""
    told: set[int] = field(default_factory=set)
    """Codes whose counter has been 0 for a round, so that its first step is seen."""


class Poller:
    """Reads NVML that has been initialised. Raises `NVMLError` only where nothing can be read.

    A reading that a GPU refuses is tried again with the slow lane only, and reported
    as not supported: it is never a zero. `clock` gives Unix seconds.
    """

    def __init__(self, nvml: Nvml, clock: Callable[[], float]):
        self._nvml: Final = nvml
        self._clock: Final = clock
        self._events: Any = None
        self.gpus: list[Gpu] = []
        self._refusals: Final = {
            nvml.NVML_ERROR_NOT_SUPPORTED,
            nvml.NVML_ERROR_NO_PERMISSION,
            nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
            nvml.NVML_ERROR_NO_DATA,
            nvml.NVML_ERROR_DEPRECATED,
        }
        self._gone: Final = {nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_RESET_REQUIRED}

    def open(self) -> None:
        """Find the GPUs, those known from before with their counts.

        One that can't be asked for its UUID, and was not known, is not among them.
        """
        nvml = self._nvml
        known = {gpu.uuid: gpu for gpu in self.gpus}
        found: dict[str, Gpu] = {}
        for index in range(nvml.nvmlDeviceGetCount()):
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                uuid = str(nvml.nvmlDeviceGetUUID(handle))
            except nvml.NVMLError:
                continue
            found[uuid] = gpu = known.get(uuid) or Gpu(index, uuid, handle)
            gpu.index, gpu.handle = index, handle
        self.gpus = list({**known, **found}.values())
        self._listen()

    def poll(self, *, slow: bool) -> tuple[list[Key], list[float]]:
        """One round; with `slow` the expensive readings are made anew."""
        keys: list[Key] = []
        values: list[float] = []
        for gpu in self.gpus:
            index, uuid = str(gpu.index), gpu.uuid
            for name, labels, value in self._read(gpu, slow=slow):
                keys.append((name, index, uuid, labels))
                values.append(value)
        return keys, values

    def wait(self, seconds: float) -> bool:
        """Sleep, for so long or until an event came and was noted; False where events can't be
        waited for, and there was no sleep."""
        nvml = self._nvml
        if self._events is None:
            return False
        try:
            data = nvml.nvmlEventSetWait_v2(self._events, max(0, round(seconds * 1000)))
        except nvml.NVMLError as failure:
            if failure.value == nvml.NVML_ERROR_TIMEOUT:
                return True
            # A lost GPU ends the whole set; the others' events come again with a new one.
            self._listen()
            return False
        self._note(data)
        return True

    def _listen(self) -> None:
        nvml = self._nvml
        self._events = None
        try:
            events = nvml.nvmlEventSetCreate()
        except nvml.NVMLError:
            return
        for gpu in self.gpus:
            try:
                offered = nvml.nvmlDeviceGetSupportedEventTypes(gpu.handle)
                wanted = sum(getattr(nvml, name, 0) for _, name in _EVENTS)
                nvml.nvmlDeviceRegisterEvents(gpu.handle, offered & wanted, events)
                self._events = events
                gpu.refused.discard(EVENTS)
            except nvml.NVMLError:
                gpu.refused.add(EVENTS)

    def _note(self, data: Any) -> None:
        """Count an event. The GPU is told by its handle: a lost one no longer gives its UUID."""
        kinds = [kind for kind, name in _EVENTS if data.eventType & getattr(self._nvml, name, 0)]
        code, where = int(data.eventData), _address(data.device)
        for gpu in (gpu for gpu in self.gpus if _address(gpu.handle) == where):
            for kind in kinds:
                gpu.events[kind] = gpu.events.get(kind, 0) + 1
            if "xid" in kinds and (code in gpu.xids or len(gpu.xids) < MOST_XIDS):
                gpu.xids[code] = (gpu.xids.get(code, (0.0, 0.0))[0] + 1, self._clock())

    def _read(self, gpu: Gpu, *, slow: bool) -> Iterator[Value]:
        gpu.up = True
        quick = [
            value
            for reading in QUICK
            if slow or reading.name not in gpu.refused
            for value in self._try(gpu, reading)
        ]
        if slow:
            gpu.slow = [value for reading in SLOW for value in self._try(gpu, reading)]
        yield "up", (), float(gpu.up)
        yield from quick
        if gpu.up:
            yield from gpu.slow
        yield from _told(gpu)

    def _try(self, gpu: Gpu, reading: Reading) -> list[Value]:
        try:
            values = list(reading.read(self._nvml, gpu.handle))
        except self._nvml.NVMLError as failure:
            if failure.value in self._refusals:
                gpu.refused.add(reading.name)
            else:
                gpu.errors[reading.name] = gpu.errors.get(reading.name, 0) + 1
                gpu.up = gpu.up and failure.value not in self._gone
            return []
        gpu.refused.discard(reading.name)
        return values


def _told(gpu: Gpu) -> Iterator[Value]:
    """What does not come from a reading but was noted of the GPU."""
    for name in NAMES:
        yield "supported", (("reading", name),), float(name not in gpu.refused)
    for name, count in gpu.errors.items():
        yield "errors_total", (("reading", name),), count
    for kind, _ in _EVENTS:
        yield "events_total", (("event", kind),), gpu.events.get(kind, 0)
    for code, (times, last) in gpu.xids.items():
        labels = (("xid", str(code)),)
        # A counter that begins at 1 has no step in it for `rate` to see.
        yield "xid_total", labels, times if code in gpu.told else 0.0
        yield "xid_last_timestamp_seconds", labels, last
        gpu.told.add(code)


def _address(handle: Any) -> int:
    """What tells handles apart: to ctypes, two pointers to one thing are not equal."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
