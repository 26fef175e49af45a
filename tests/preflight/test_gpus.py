"""The GPUs of a target: as people write them, and as a driver tells them."""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pynvml
import pytest

from enginewatch.nvml.simulation import Simulation
from enginewatch.preflight.errors import PreflightError
from enginewatch.preflight.readers.gpus import Gpus, declared_gpus, driver_gpus
from enginewatch.preflight.readers.versions import (
    declared_version,
    installed_versions,
    read_freeze,
)


@pytest.mark.parametrize(
    ("text", "model", "count"),
    [
        ("8xB200", "B200", 8),
        ("8 x B200", "B200", 8),
        ("2XH100-SXM", "H100-SXM", 2),
        ("H200", "H200", 1),
        ("4xRTX PRO 6000", "RTX PRO 6000", 4),
        ("72xGB300", "GB300", 72),
        ("1xA100-SXM4-80GB", "A100-SXM4-80GB", 1),
    ],
)
def test_declared(text: str, model: str, count: int) -> None:
    found = declared_gpus(text)
    assert (found.model, found.count) == (model, count)
    assert found.where == f"--gpus {text}"


@pytest.mark.parametrize(
    "text", ["", "8", "8x", "x8", "0xB200", "00xB200", "-1xB200", "8xB200,4xH200", "💥"]
)
def test_what_is_no_declaration(text: str) -> None:
    if text == "x8":  # a model called so, for all we know
        assert declared_gpus(text) == Gpus("x8", 1, "--gpus x8")
        return
    with pytest.raises(PreflightError, match="does not say how many of which GPU"):
        declared_gpus(text)


def simulated(path: Path, *gpus: dict[str, Any]) -> Simulation:
    file = path / "gpus.json"
    file.write_text(json.dumps({"driver": "590.44.01", "gpus": gpus}))
    return Simulation(file)


def test_a_driver_tells_models_and_how_many(tmp_path: Path) -> None:
    other = {"name": "NVIDIA B200", "capability": [10, 0]}
    here = driver_gpus(simulated(tmp_path, {}, {}, other))
    assert Counter({each.model: each.count for each in here.gpus}) == Counter(
        {"NVIDIA H200": 2, "NVIDIA B200": 1}
    )
    assert {each.capability for each in here.gpus} == {(9, 0), (10, 0)}
    assert {each.driver for each in here.gpus} == {"590.44.01"}
    assert not here.unread


def test_a_lost_gpu_is_told_and_not_taken_for_none(tmp_path: Path) -> None:
    here = driver_gpus(simulated(tmp_path, {"lost": True}))
    assert not here.gpus
    assert "the driver does not tell its GPUs" in here.unread[0].what


def test_no_driver_is_nothing_to_complain_of() -> None:
    class Absent:
        NVMLError = pynvml.NVMLError

        def nvmlInit(self) -> None:  # noqa: N802
            raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    assert driver_gpus(Absent()) == ((), ())


def test_a_driver_that_hangs_is_left_to_itself() -> None:
    released = threading.Event()

    class Hung:
        NVMLError = pynvml.NVMLError

        def nvmlInit(self) -> None:  # noqa: N802
            released.wait(10)
            raise pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)

    here = driver_gpus(Hung(), wait=0.05)
    released.set()
    assert "no answer within 0.05 s" in here.unread[0].what


@pytest.mark.parametrize(
    ("line", "name", "version"),
    [
        ("torch==2.9.0a0+nv25.10", "torch", "2.9.0a0+nv25.10"),
        ("tensorrt_llm==1.2.1", "tensorrt-llm", "1.2.1"),
        ("vllm===0.11.0  # pinned", "vllm", "0.11.0"),
        ("uvicorn[standard]==0.30.1 ; python_version > '3.8'", "uvicorn", "0.30.1"),
        (
            "torch @ file:///opt/torch-2.9.0a0%2Bnv25.10-cp312-cp312-linux_x86_64.whl#sha256=ab",
            "torch",
            "2.9.0a0+nv25.10",
        ),
    ],
)
def test_lines_of_a_freeze(line: str, name: str, version: str) -> None:
    [found] = read_freeze(f"# made by pip\n{line}\n-e git+https://x/y#egg=z\n", "freeze.txt")
    assert found == (name, version, "freeze.txt:2")


def test_declared_versions() -> None:
    assert declared_version("TensorRT_LLM=1.2.1").name == "tensorrt-llm"
    assert declared_version("cuda==13.1").version == "13.1"
    for wrong in ("vllm", "=1", "vllm=", "a b=1"):
        with pytest.raises(PreflightError, match="does not say a name and a version"):
            declared_version(wrong)


def test_what_is_installed_here() -> None:
    [found] = installed_versions(["no-such-distribution", "pytest"])
    assert found == ("pytest", pytest.__version__, "installed here")
