"""What is read from one GPU: for each reading the NVML calls, and the series they give.

Which readings are slow was measured on an H200 (driver 580): 1 to 6 µs for the quick
ones, 25 to 95 µs for PCIe width and replays, 3 to 15 ms for field values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

Pairs = tuple[tuple[str, str], ...]
"""Labels besides the GPU's own."""

Value = tuple[str, Pairs, float]
"""Name without its prefix, labels, value in base units."""

Nvml = Any
"""The module `pynvml`, or `simulation.Simulation`, which has the same functions."""

PREFIX: Final = "enginewatch_nvml_"

MOST_PROCESSES: Final = 16
"""Processes of a GPU that get a series each: those with the most memory."""

_NONE: Final[Pairs] = ()


class Reading(NamedTuple):
    """`read` gives the values of one GPU, by its handle. Raises `NVMLError`."""

    name: str
    read: Callable[[Nvml, Any], Iterator[Value]]
    slow: bool = False


def _memory(nvml: Nvml, gpu: Any) -> Iterator[Value]:
    """Version 2 tells apart what the driver keeps for itself; version 1 calls it used."""
    try:
        memory = nvml.nvmlDeviceGetMemoryInfo(gpu, version=nvml.nvmlMemory_v2)
    except nvml.NVMLError as failure:
        if failure.value != nvml.NVML_ERROR_FUNCTION_NOT_FOUND:
            raise
        memory = nvml.nvmlDeviceGetMemoryInfo(gpu)
    else:
        yield "memory_reserved_bytes", _NONE, memory.reserved
    yield "memory_total_bytes", _NONE, memory.total
    yield "memory_used_bytes", _NONE, memory.used
    yield "memory_free_bytes", _NONE, memory.free


def _utilization(nvml: Nvml, gpu: Any) -> Iterator[Value]:
    rates = nvml.nvmlDeviceGetUtilizationRates(gpu)
    yield "utilization_ratio", _NONE, rates.gpu / 100
    yield "memory_utilization_ratio", _NONE, rates.memory / 100


def _power(nvml: Nvml, gpu: Any) -> Iterator[Value]:
    yield "power_watts", _NONE, nvml.nvmlDeviceGetPowerUsage(gpu) / 1000


def _power_limit(nvml: Nvml, gpu: Any) -> Iterator[Value]:
    yield "power_limit_watts", _NONE, nvml.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1000


REASONS: Final = (
    ("gpu_idle", 0x1),
    ("applications_clocks", 0x2),
    ("sw_power_cap", 0x4),
    ("hw_slowdown", 0x8),
    ("sync_boost", 0x10),
    ("sw_thermal_slowdown", 0x20),
    ("hw_thermal_slowdown", 0x40),
    ("hw_power_brake", 0x80),
    ("display_clock", 0x100),
)
"""Bits of the clocks-event reasons, `nvmlClocksEventReason*` in nvml.h."""

_REASON_LABELS: Final = tuple(((("reason", name),), bit) for name, bit in REASONS)


def _clocks_event(nvml: Nvml, gpu: Any) -> Iterator[Value]:
    mask = nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu)
    for labels, bit in _REASON_LABELS:
        yield "clocks_event", labels, 1.0 if mask & bit else 0.0


def _sm_clock(nvml: Nvml, gpu: Any) -> Iterator[Value]:
    yield "sm_clock_hertz", _NONE, nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM) * 1e6


def _temperature(nvml: Nvml, gpu: Any) -> Iterator[Value]:
    degrees = nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU)
    yield "temperature_celsius", _NONE, degrees


def _slowdown(nvml: Nvml, gpu: Any) -> Iterator[Value]:
    kind = nvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
    yield "temperature_slowdown_celsius", _NONE, nvml.nvmlDeviceGetTemperatureThreshold(gpu, kind)


_ECC: Final = tuple(
    ((("counter", counter), ("severity", severity)), severities, counters)
    for counter, counters in (("volatile", 0), ("aggregate", 1))
    for severity, severities in (("corrected", 0), ("uncorrected", 1))
)
"""`volatile` counts since the driver was loaded, `aggregate` since the GPU was made."""


def _ecc(nvml: Nvml, gpu: Any) -> Iterator[Value]:
    for labels, severity, counter in _ECC:
        yield "ecc_errors_total", labels, nvml.nvmlDeviceGetTotalEccErrors(gpu, severity, counter)


_CORRECTED: Final = (("severity", "corrected"),)
_UNCORRECTED: Final = (("severity", "uncorrected"),)


def _remapped_rows(nvml: Nvml, gpu: Any) -> Iterator[Value]:
    corrected, uncorrected, pending, failed = nvml.nvmlDeviceGetRemappedRows(gpu)
    yield "remapped_rows_total", _CORRECTED, corrected
    yield "remapped_rows_total", _UNCORRECTED, uncorrected
    yield "row_remap_pending", _NONE, pending
    yield "row_remap_failure", _NONE, failed


def _processes(nvml: Nvml, gpu: Any) -> Iterator[Value]:
    """Memory by process; in a container the driver may tell of none, or of no memory."""
    found = nvml.nvmlDeviceGetComputeRunningProcesses(gpu)
    yield "processes", _NONE, len(found)
    known = [(one.usedGpuMemory, one.pid) for one in found if one.usedGpuMemory is not None]
    for memory, pid in sorted(known, reverse=True)[:MOST_PROCESSES]:
        yield "process_memory_bytes", (("pid", str(pid)),), memory


def _pcie_replays(nvml: Nvml, gpu: Any) -> Iterator[Value]:
    yield "pcie_replays_total", _NONE, nvml.nvmlDeviceGetPcieReplayCounter(gpu)


def _pcie_link(nvml: Nvml, gpu: Any) -> Iterator[Value]:
    yield "pcie_link_width", _NONE, nvml.nvmlDeviceGetCurrPcieLinkWidth(gpu)
    yield "pcie_link_width_max", _NONE, nvml.nvmlDeviceGetMaxPcieLinkWidth(gpu)
    yield "pcie_link_generation", _NONE, nvml.nvmlDeviceGetCurrPcieLinkGeneration(gpu)
    yield "pcie_link_generation_max", _NONE, nvml.nvmlDeviceGetMaxPcieLinkGeneration(gpu)


_LINK_ERRORS: Final = (("replay", 0), ("recovery", 1), ("crc_flit", 2), ("crc_data", 3))
"""`nvmlNvLinkErrorCounter_t` in nvml.h."""


def _nvlink(nvml: Nvml, gpu: Any) -> Iterator[Value]:
    """Links are numbered from 0 without a gap; the first call past the last is refused."""
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        try:
            up = nvml.nvmlDeviceGetNvLinkState(gpu, link)
        except nvml.NVMLError as failure:
            if link and failure.value in (
                nvml.NVML_ERROR_INVALID_ARGUMENT,
                nvml.NVML_ERROR_NOT_SUPPORTED,
            ):
                return
            raise
        yield "nvlink_up", (("link", str(link)),), up


def _nvlink_errors(nvml: Nvml, gpu: Any) -> Iterator[Value]:
    for kind, counter in _LINK_ERRORS:
        total = 0
        for link in range(nvml.NVML_NVLINK_MAX_LINKS):
            try:
                total += nvml.nvmlDeviceGetNvLinkErrorCounter(gpu, link, counter)
            except nvml.NVMLError as failure:
                if link and failure.value in (
                    nvml.NVML_ERROR_INVALID_ARGUMENT,
                    nvml.NVML_ERROR_NOT_SUPPORTED,
                ):
                    break
                raise
        yield "nvlink_errors_total", (("kind", kind),), total


def _remap_banks(nvml: Nvml, gpu: Any) -> Iterator[Value]:
    """Memory banks by how many spare rows they have left."""
    banks = nvml.nvmlDeviceGetRowRemapperHistogram(gpu)
    for spare in ("max", "high", "partial", "low", "none"):
        yield "row_remap_banks", (("spare", spare),), getattr(banks, spare)


def _recovery_action(nvml: Nvml, gpu: Any) -> Iterator[Value]:
    """`nvmlDeviceGpuRecoveryAction_t`: 0 none, 1 reset the GPU, 2 reboot the node, 3 drain peer
    to peer, 4 drain and reset; newer drivers have more."""
    (field,) = nvml.nvmlDeviceGetFieldValues(gpu, [nvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
    if field.nvmlReturn:
        raise nvml.NVMLError(field.nvmlReturn)
    yield "recovery_action", _NONE, field.value.uiVal


def _info(nvml: Nvml, gpu: Any) -> Iterator[Value]:
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(gpu)
    cuda = nvml.nvmlSystemGetCudaDriverVersion()
    labels = (
        ("name", str(nvml.nvmlDeviceGetName(gpu))),
        ("compute_capability", f"{major}.{minor}"),
        ("driver_version", str(nvml.nvmlSystemGetDriverVersion())),
        ("cuda_version", f"{cuda // 1000}.{cuda % 1000 // 10}"),
        ("pci_bus_id", str(nvml.nvmlDeviceGetPciInfo(gpu).busId)),
    )
    yield "info", labels, 1.0


READINGS: Final = (
    Reading("memory", _memory),
    Reading("utilization", _utilization),
    Reading("power", _power),
    Reading("power_limit", _power_limit),
    Reading("clocks_event", _clocks_event),
    Reading("sm_clock", _sm_clock),
    Reading("temperature", _temperature),
    Reading("ecc", _ecc),
    Reading("remapped_rows", _remapped_rows),
    Reading("processes", _processes),
    Reading("temperature_slowdown", _slowdown, slow=True),
    Reading("pcie_replays", _pcie_replays, slow=True),
    Reading("pcie_link", _pcie_link, slow=True),
    Reading("nvlink", _nvlink, slow=True),
    Reading("nvlink_errors", _nvlink_errors, slow=True),
    Reading("row_remap_banks", _remap_banks, slow=True),
    Reading("recovery_action", _recovery_action, slow=True),
    Reading("info", _info, slow=True),
)
