"""What is known of GPUs: their models and compute capabilities, from `rules/compat`.

Also whether a device record describes a GPU that can exist: the check that stands
between a damaged file and a wrong answer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from enginewatch.evidence.tables import load_table
from enginewatch.model import compile_re2
from enginewatch.preflight.capability import Capability, capability_of
from enginewatch.rulepack import rules_path

_WORDS: Final = re.compile(r"\b(?:nvidia|geforce|tesla|quadro|graphics device)\b")
_GAPS: Final = re.compile(r"[\s_-]+")
_MEBI: Final = 1 << 20
_GIBI: Final = 1 << 30
_LEAST_MEMORY, _MOST_MEMORY = 0.75, 1.07
"""Of the memory in the table, what a device may report: drivers and carve-outs take from it,
and a table that has a driver's figure meets records with the nominal one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """What a file records of the GPU that it was made on. Sizes are bytes, the bus is bits wide.

    None: the form of the file has no such member.
    """

    capability: Capability
    multiprocessors: int
    bus: int
    l2: int
    shared_per_multiprocessor: int | None = None
    integrated: bool | None = None
    memory: int | None = None
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """Bounds over the models of a capability: a row of `architectures.yml`."""

    capability: Capability
    name: str
    shared_per_multiprocessor: int
    multiprocessors: tuple[int, int]
    buses: frozenset[int]
    l2: tuple[float, float]
    memory: tuple[float, float]
    """Bytes, as `l2` is."""
    integrated: bool
    tegra: bool
    cuda: str
    """The first toolkit that compiles for it."""

    def admits(self, device: Device) -> bool:
        """Whether a device of this capability could have been recorded so."""
        low, high = self.multiprocessors
        return (
            device.capability == self.capability
            and low <= device.multiprocessors <= high
            and device.bus in self.buses
            and self.l2[0] <= device.l2 <= self.l2[1]
            and (device.memory is None or self.memory[0] <= device.memory <= self.memory[1])
            and device.shared_per_multiprocessor in (None, self.shared_per_multiprocessor)
            and device.integrated in (None, self.integrated)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A model: a row of `capabilities.yml`. None is not known. `memory` and `l2` are bytes."""

    name: str
    names: Any
    capability: Capability
    multiprocessors: int
    bus: int | None
    l2: float | None
    memory: float | None

    def admits(self, device: Device) -> bool:
        """Whether the record can be of this model."""
        return (
            device.capability == self.capability
            and device.multiprocessors == self.multiprocessors
            and self.bus in (None, device.bus)
            and self.l2 in (None, device.l2)
            and (
                device.memory is None
                or self.memory is None
                or _LEAST_MEMORY * self.memory <= device.memory <= _MOST_MEMORY * self.memory
            )
        )


@dataclass(frozen=True, slots=True)
class Devices:
    """The models in the order of the table, and the capabilities."""

    gpus: tuple[Gpu, ...]
    architectures: Mapping[Capability, Architecture]

    def named(self, name: str) -> Gpu | None:
        """The model of a name as drivers, clouds or people write it."""
        plain = _plain(name)
        return next((gpu for gpu in self.gpus if gpu.names.fullmatch(plain)), None)

    def plausible(self, device: Device) -> bool:
        """Whether such a GPU can exist. A capability without a row is not known, so it can't."""
        architecture = self.architectures.get(device.capability)
        return architecture is not None and architecture.admits(device)

    def models(self, device: Device) -> tuple[Gpu, ...]:
        """Those of the table that the record can be of."""
        return tuple(gpu for gpu in self.gpus if gpu.admits(device))


def _plain(name: str) -> str:
    return _GAPS.sub(" ", _WORDS.sub(" ", name.lower().replace("_", " "))).strip()


@cache
def shipped_devices() -> Devices:
    """Those of the pack. Raises SignatureError with every problem of its tables."""
    return load_devices(rules_path())


def load_devices(root: Path) -> Devices:
    """The tables under a folder of rules. Raises SignatureError with every problem."""
    folder = root / "compat"
    gpus = load_table(folder / "capabilities.yml")
    architectures = load_table(folder / "architectures.yml")
    known = [_architecture(row) for row in architectures.rows.values()]
    return Devices(
        tuple(_gpu(row) for row in gpus.rows.values()),
        {each.capability: each for each in known},
    )


def _architecture(row: Mapping[str, Any]) -> Architecture:
    return Architecture(
        capability=capability_of(str(row["capability"])),
        name=row["architecture"],
        shared_per_multiprocessor=row["shared_per_sm"],
        multiprocessors=(row["sm_min"], row["sm_max"]),
        buses=frozenset(map(int, row["buses"].split())),
        l2=(row["l2_min"] * _MEBI, row["l2_max"] * _MEBI),
        memory=(
            row.get("memory_min", 0) * _GIBI,
            row.get("memory_max", math.inf) * _GIBI,
        ),
        integrated=row["integrated"],
        tegra=bool(row.get("tegra")),
        cuda=row["cuda_min"],
    )


def _gpu(row: Mapping[str, Any]) -> Gpu:
    l2, memory = row.get("l2"), row.get("memory")
    return Gpu(
        name=row["gpu"],
        names=compile_re2(row.get("names") or row["gpu"].lower().replace(" ", " ?")),
        capability=capability_of(str(row["capability"])),
        multiprocessors=row["sm"],
        bus=row.get("bus"),
        l2=None if l2 is None else l2 * _MEBI,
        memory=None if memory is None else memory * _GIBI,
    )
