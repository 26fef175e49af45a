"""The tables of `rules/compat` that preflight judges by: whole, sourced, and of one mind."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from enginewatch.evidence.tables import load_table
from enginewatch.preflight.capability import Capability
from enginewatch.preflight.devices import Device, Gpu, shipped_devices
from enginewatch.preflight.pins import needs, numbers
from enginewatch.rulepack import rules_path

COMPAT = rules_path() / "compat"
DEVICES = shipped_devices()
TABLES = (
    "architectures",
    "capabilities",
    "formats",
    "images",
    "needs",
    "pins",
    "rebuild",
    "tensorrt",
)


@pytest.mark.parametrize("name", TABLES)
def test_every_row_has_a_source(name: str) -> None:
    table = load_table(COMPAT / f"{name}.yml")
    assert table.rows
    assert all(row["source"] for row in table.rows.values())


@pytest.mark.parametrize("gpu", DEVICES.gpus, ids=lambda gpu: gpu.name)
def test_a_model_lies_within_the_bounds_of_its_capability(gpu: Gpu) -> None:
    architecture = DEVICES.architectures[gpu.capability]
    device = Device(
        capability=gpu.capability,
        multiprocessors=gpu.multiprocessors,
        bus=gpu.bus or max(architecture.buses),
        l2=int(gpu.l2 or architecture.l2[1]),
        memory=int(gpu.memory) if gpu.memory else None,
    )
    assert architecture.admits(device)
    assert gpu.admits(device)


@pytest.mark.parametrize("gpu", DEVICES.gpus, ids=lambda gpu: gpu.name)
def test_a_model_is_found_by_its_own_name(gpu: Gpu) -> None:
    assert DEVICES.named(gpu.name) is gpu
    assert DEVICES.named(f"NVIDIA {gpu.name}") is gpu
    assert DEVICES.named(gpu.name.replace(" ", "-")) is gpu


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H100 NVL", "H100 NVL"),
        ("H100-SXM", "H100 SXM"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA GB200", "GB200"),
        ("NVIDIA B300 SXM6 AC", "B300"),
        ("NVIDIA A100-SXM4-80GB", "A100 80GB"),
        ("NVIDIA A100-PCIE-40GB", "A100 40GB"),
        ("NVIDIA A100 80GB PCIe", "A100 80GB"),
        ("A100-SXM-80GB", "A100 80GB"),
        ("NVIDIA A10G", "A10G"),
        ("Tesla T4", "T4"),
        ("Tesla V100-SXM2-16GB", "V100 16GB"),
        ("Tesla V100-SXM2-32GB", "V100 32GB"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "RTX 4090 Laptop"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000"),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "RTX PRO 6000"),
        ("Quadro RTX 8000", "RTX 8000"),
        ("NVIDIA GB10", "GB10"),
    ],
)
def test_names_as_the_driver_tells_them(name: str, model: str) -> None:
    found = DEVICES.named(name)
    assert found is not None
    assert found.name == model


@pytest.mark.parametrize("name", ["", "NVIDIA", "H1000", "RTX", "MI300X", "NVIDIA Graphics Device"])
def test_other_names_are_no_model(name: str) -> None:
    assert DEVICES.named(name) is None


def test_capabilities_of_the_models_that_serve() -> None:
    """The table of developer.nvidia.com/cuda-gpus."""
    expected = {
        **dict.fromkeys(("A100", "A30"), (8, 0)),
        **dict.fromkeys(("A10", "A40", "A16", "A2", "RTX 3090"), (8, 6)),
        **dict.fromkeys(("L4", "L40", "L40S", "RTX 4090"), (8, 9)),
        **dict.fromkeys(("H100", "H200", "GH200"), (9, 0)),
        **dict.fromkeys(("B200", "GB200"), (10, 0)),
        **dict.fromkeys(("B300", "GB300"), (10, 3)),
        **dict.fromkeys(("RTX PRO 6000", "RTX 5090"), (12, 0)),
        "V100": (7, 0),
        "T4": (7, 5),
        "GB10": (12, 1),
        "Jetson T5000": (11, 0),
    }
    assert {name: DEVICES.named(name).capability for name in expected} == {
        name: Capability(*value) for name, value in expected.items()
    }


def test_two_releases_of_a_minor_version_of_tensorrt_differ_in_both_other_numbers() -> None:
    """So that one wrong byte makes no other release of one, where a plan has no checksum; the
    first two numbers are confirmed by the serial number of the format."""
    releases = sorted(map(numbers, load_table(COMPAT / "tensorrt.yml").rows))
    for one in releases:
        for other in releases:
            if one < other and one[:2] == other[:2]:
                assert one[2] != other[2], (one, other)
                assert one[3] != other[3], (one, other)


def test_a_month_has_one_row_in_a_family() -> None:
    rows = load_table(COMPAT / "pins.yml").rows.values()
    for family in {row["family"] for row in rows}:
        spans = sorted(str(row["tags"]).partition("-") for row in rows if row["family"] == family)
        for (_, _, last), (first, _, _) in pairwise(spans):
            assert last < first


def test_needs_ask_for_one_thing_each() -> None:
    assert all(bool(need.least) != bool(need.below) for need in needs())
    assert not [name for name, n in Counter(need.name for need in needs()).items() if n > 1]
