"""What the sim reads and writes: settings, GPU file, engine directory."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from enginechaos.sim import engine_dir
from enginechaos.sim.driver import readings
from enginechaos.sim.engine_dir import Build, EngineRefused
from enginechaos.sim.errors import SimError
from enginechaos.sim.gpu import GpuFile
from enginechaos.sim.memory import GIB
from enginechaos.sim.settings import load
from enginewatch.nvml.simulation import Simulation
from enginewatch.preflight.readers.plan import read_plan


def settings_file(folder: Path, text: str) -> Path:
    path = folder / "sim.yml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prot: 1", "prot"),
        ("port: eighty", "port"),
        ("- port", "not a mapping"),
        ("port: [", "not YAML"),
        ("max_num_seqs: 256\nmax_num_batched_tokens: 128", "greater than or equal to max_num_seqs"),
        ("dialect: vllm\nengine_dir: here", "loads no TensorRT engines"),
        ("memory: {utilization: 1.5}", "memory.utilization"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SimError, match=said):
        load(settings_file(tmp_path, text))


def test_paths_are_relative_to_the_file_and_the_command_line_wins(tmp_path: Path) -> None:
    found = load(settings_file(tmp_path, "gpu_file: gpu.json\nport: 1"), port=8123)
    assert found.gpu_file == tmp_path / "gpu.json"
    assert found.port == 8123


@pytest.fixture
def gpu(tmp_path: Path) -> GpuFile:
    file = GpuFile(tmp_path / "gpu.json")
    file.prepare(2, 10 * GIB, "NVIDIA H200", (9, 0))
    return file


def test_claims_are_what_nvml_counts_as_used(gpu: GpuFile) -> None:
    assert gpu.claim(0, os.getpid(), 3 * GIB) == 7 * GIB
    assert gpu.claim(0, os.getppid(), 8 * GIB) is None
    assert gpu.free(0) == 7 * GIB
    nvml = Simulation(gpu.path)
    assert nvml.nvmlDeviceGetCount() == 2
    assert nvml.nvmlDeviceGetMemoryInfo(0, 2).used == 3 * GIB
    assert [each.pid for each in nvml.nvmlDeviceGetComputeRunningProcesses(0)] == [os.getpid()]
    gpu.release(os.getpid())
    assert gpu.free(0) == 10 * GIB


def test_what_a_dead_process_held_is_free(gpu: GpuFile) -> None:
    with gpu.edit() as found:
        found["gpus"][0]["processes"] = [{"pid": 2**22 + 1, "memory": 9 * GIB}]
    assert gpu.free(0) == 10 * GIB


def test_what_others_wrote_into_the_file_stays(gpu: GpuFile) -> None:
    with gpu.edit() as found:
        found["events"] = [{"id": 1, "gpu": 0, "xid": 79}]
        found["gpus"][1]["lost"] = True
    gpu.claim(0, os.getpid(), GIB)
    found = json.loads(gpu.path.read_text())
    assert found["events"]
    assert found["gpus"][1]["lost"]


def test_a_file_that_is_not_json_is_told(tmp_path: Path) -> None:
    path = tmp_path / "gpu.json"
    path.write_text("{")
    with pytest.raises(SimError, match=r"gpu.json.*not JSON"):
        GpuFile(path).free(0)


def test_a_kernel_that_only_waits_uses_the_gpu_and_no_power() -> None:
    """As read on an H200: 690 W at work, 121 W in a kernel that waits, utilisation 1.0 in both."""
    assert readings(1, 0)["power"] == 690_000
    assert readings(0, 1)["power"] == 121_000
    assert readings(1, 0)["utilization"]["gpu"] == readings(0, 1)["utilization"]["gpu"] == 100
    assert readings(0, 0)["utilization"]["gpu"] == 0


@pytest.mark.parametrize("capability", ["8.0", "8.9", "9.0", "10.0", "12.0"])
def test_a_written_plan_is_read_by_preflight_as_what_it_is(tmp_path: Path, capability: str) -> None:
    engine_dir.write(tmp_path, Build.of(capability, "10.6.0.26"), ranks=2)
    found = read_plan(tmp_path / "rank1.engine")
    assert found.problem == ""
    assert found.tensorrt == "10.6.0.26"
    assert found.device is not None
    assert str(found.device.capability) == capability


HOPPER = Build.of("9.0", "10.6.0.26")


def test_an_engine_built_for_this_gpu_is_loaded(tmp_path: Path) -> None:
    engine_dir.write(tmp_path, HOPPER, ranks=2, version="1.2.0")
    assert engine_dir.load(tmp_path, HOPPER, 2) == "1.2.0"


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (Build.of("10.0", "10.6.0.26"), "expecting compute 9.0 got compute 10.0, please rebuild"),
        (Build.of("9.0", "10.9.0.34"), "expecting library version 10.6.0.26 got 10.9.0.34"),
    ],
)
def test_one_built_for_another_is_refused_in_tensorrts_words(
    tmp_path: Path, build: Build, said: str
) -> None:
    engine_dir.write(tmp_path, build)
    with pytest.raises(EngineRefused, match=said):
        engine_dir.load(tmp_path, HOPPER, 1)


def test_missing_ranks_and_files_that_are_no_plans_are_refused(tmp_path: Path) -> None:
    engine_dir.write(tmp_path, HOPPER)
    with pytest.raises(EngineRefused, match=r"rank1\.engine"):
        engine_dir.load(tmp_path, HOPPER, 2)
    (tmp_path / "rank0.engine").write_bytes(b"version https://git-lfs.github.com/spec/v1\n" * 9)
    with pytest.raises(EngineRefused, match="Magic tag does not match"):
        engine_dir.load(tmp_path, HOPPER, 1)
