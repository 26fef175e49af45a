"""What a simulated driver says, as series; what it refuses is reported and never a zero."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from enginewatch.nvml.poller import Poller
from enginewatch.nvml.simulation import Simulation

NOW = 1_700_000_000.0


class Gpus:
    """A poller over a script that the test writes."""

    def __init__(self, folder: Path, *gpus: dict[str, Any]):
        self.script = folder / "gpus.json"
        self.tree: dict[str, Any] = {"gpus": list(gpus), "events": []}
        self.poller = Poller(self.simulation(), lambda: NOW)
        self.poller.open()

    def simulation(self) -> Simulation:
        self.write()
        return Simulation(self.script)

    def write(self) -> None:
        before = self.script.stat().st_mtime_ns if self.script.exists() else 0
        self.script.write_text(json.dumps(self.tree))
        os.utime(self.script, ns=(before + 10**6, before + 10**6))

    def event(self, **event: Any) -> None:
        self.tree["events"].append({"id": len(self.tree["events"]), **event})
        self.write()
        assert self.poller.wait(0)

    def poll(self, *, slow: bool = True) -> dict[str, float]:
        keys, values = self.poller.poll(slow=slow)
        texts = []
        for name, gpu, _, labels in keys:
            inner = "".join(f",{label}={text}" for label, text in labels)
            texts.append(f"{name}{{{gpu}{inner}}}")
        assert len(set(texts)) == len(texts)
        return dict(zip(texts, values, strict=True))


@pytest.fixture
def gpus(tmp_path: Path) -> Gpus:
    return Gpus(tmp_path, {}, {"uuid": "GPU-b"})


def test_a_gpu_at_rest(gpus: Gpus) -> None:
    found = gpus.poll()
    expected = {
        "up{0}": 1,
        "memory_total_bytes{0}": 150754820096,
        "memory_free_bytes{0}": 150109880320,
        "memory_reserved_bytes{0}": 644939776,
        "memory_used_bytes{0}": 0,
        "utilization_ratio{0}": 0,
        "power_watts{0}": 128.127,
        "power_limit_watts{0}": 700,
        "clocks_event{0,reason=gpu_idle}": 1,
        "clocks_event{0,reason=hw_slowdown}": 0,
        "sm_clock_hertz{0}": 405e6,
        "temperature_celsius{0}": 36,
        "temperature_slowdown_celsius{0}": 89,
        "ecc_errors_total{0,counter=volatile,severity=uncorrected}": 0,
        "row_remap_failure{0}": 0,
        "pcie_link_width{0}": 16,
        "pcie_link_generation_max{0}": 5,
        "row_remap_banks{0,spare=max}": 3072,
        "recovery_action{0}": 0,
        "supported{0,reading=nvlink}": 0,
        "supported{0,reading=memory}": 1,
        "events_total{0,event=xid}": 0,
    }
    assert {name: found[name] for name in expected} == expected
    info = next(name for name in found if name.startswith("info{0"))
    assert "compute_capability=9.0,driver_version=580.159.04,cuda_version=13.0" in info


def test_the_expensive_readings_are_kept_between_turns_of_the_slow_lane(gpus: Gpus) -> None:
    gpus.poll(slow=True)
    gpus.tree["gpus"][0] = {"temperature": 50, "slowdown": 90}
    gpus.write()
    found = gpus.poll(slow=False)
    assert found["temperature_celsius{0}"] == 50
    assert found["temperature_slowdown_celsius{0}"] == 89
    assert gpus.poll(slow=True)["temperature_slowdown_celsius{0}"] == 90


@pytest.mark.parametrize("answer", [None, "NOT_SUPPORTED", "NO_PERMISSION", "FUNCTION_NOT_FOUND"])
def test_what_a_gpu_refuses_is_absent_and_reported(tmp_path: Path, answer: str | None) -> None:
    gpus = Gpus(tmp_path, {"power": answer})
    found = gpus.poll()
    assert "power_watts{0}" not in found
    assert found["supported{0,reading=power}"] == 0
    assert found["up{0}"] == 1
    assert not [name for name in found if name.startswith("errors_total")]


def test_a_refused_reading_is_asked_for_again_in_the_slow_lane_only(tmp_path: Path) -> None:
    gpus = Gpus(tmp_path, {"power": None})
    gpus.poll()
    gpus.tree["gpus"][0]["power"] = 200_000
    gpus.write()
    assert "power_watts{0}" not in gpus.poll(slow=False)
    found = gpus.poll(slow=True)
    assert (found["power_watts{0}"], found["supported{0,reading=power}"]) == (200, 1)


def test_an_error_is_counted_and_costs_its_own_reading_only(tmp_path: Path) -> None:
    gpus = Gpus(tmp_path, {"temperature": "UNKNOWN"})
    gpus.poll()
    found = gpus.poll()
    assert found["errors_total{0,reading=temperature}"] == 2
    assert (found["up{0}"], found["power_watts{0}"]) == (1, 128.127)
    assert found["supported{0,reading=temperature}"] == 1


def test_a_lost_gpu_is_not_up_and_has_no_readings(gpus: Gpus) -> None:
    gpus.poll()
    gpus.tree["gpus"][0]["lost"] = True
    gpus.write()
    found = gpus.poll(slow=False)
    assert (found["up{0}"], found["up{1}"]) == (0, 1)
    assert not {"memory_free_bytes{0}", "temperature_slowdown_celsius{0}"} & found.keys()
    gpus.poller.open()
    assert gpus.poll()["up{0}"] == 0, "one that was known is not forgotten"


def test_memory_of_an_old_driver_has_no_reserve_apart(tmp_path: Path) -> None:
    gpus = Gpus(tmp_path, {"memory": {"total": 100, "used": 40, "reserved": 5}})
    simulation: Any = gpus.poller._nvml
    newest = simulation.nvmlDeviceGetMemoryInfo

    def old(gpu: int, version: int | None = None) -> Any:
        if version is not None:
            raise simulation.NVMLError(simulation.NVML_ERROR_FUNCTION_NOT_FOUND)
        return newest(gpu)

    simulation.nvmlDeviceGetMemoryInfo = old
    found = gpus.poll()
    assert found["memory_used_bytes{0}"] == 45
    assert "memory_reserved_bytes{0}" not in found


def test_processes_are_those_with_the_most_memory(tmp_path: Path) -> None:
    processes = [{"pid": pid, "memory": pid * 10} for pid in range(1, 21)]
    gpus = Gpus(tmp_path, {"processes": [*processes, {"pid": 99, "memory": None}]})
    found = gpus.poll()
    assert found["processes{0}"] == 21
    pids = [name for name in found if name.startswith("process_memory_bytes")]
    assert len(pids) == 16
    assert found["process_memory_bytes{0,pid=20}"] == 200
    assert "process_memory_bytes{0,pid=4}" not in found


def test_links_end_where_the_driver_says(tmp_path: Path) -> None:
    errors = [[1, 0, 2, 0], [0, 0, 3, 0]]
    gpus = Gpus(tmp_path, {"nvlink": [1, 0], "nvlink_errors": errors})
    found = gpus.poll()
    assert [found.get(f"nvlink_up{{0,link={link}}}") for link in range(3)] == [1, 0, None]
    assert found["nvlink_errors_total{0,kind=crc_flit}"] == 5
    assert found["supported{0,reading=nvlink}"] == 1


def test_an_xid_is_counted_from_zero_so_that_its_step_is_seen(gpus: Gpus) -> None:
    gpus.event(gpu=1, xid=79)
    first, second = gpus.poll(), gpus.poll()
    assert (first["xid_total{1,xid=79}"], second["xid_total{1,xid=79}"]) == (0, 1)
    assert second["xid_last_timestamp_seconds{1,xid=79}"] == NOW
    assert (second["events_total{1,event=xid}"], second["events_total{0,event=xid}"]) == (1, 0)
    gpus.event(gpu=1, xid=79)
    gpus.event(gpu=1, type=2)
    third = gpus.poll()
    assert (third["xid_total{1,xid=79}"], third["events_total{1,event=double_bit_ecc}"]) == (2, 1)


def test_events_of_a_gpu_that_is_gone_are_still_its_own(gpus: Gpus) -> None:
    gpus.poll()
    gpus.tree["gpus"][1]["lost"] = True
    gpus.event(gpu=1, xid=79)
    assert gpus.poll()["events_total{1,event=xid}"] == 1


def test_no_storm_of_codes_makes_more_than_a_few_series(gpus: Gpus) -> None:
    for code in range(100):
        gpus.event(gpu=0, xid=code)
    found = gpus.poll()
    assert len([name for name in found if name.startswith("xid_total")]) == 32
    assert found["events_total{0,event=xid}"] == 100
