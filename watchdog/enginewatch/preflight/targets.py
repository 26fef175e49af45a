"""The GPUs that will serve, with what the tables know of their models; and the runtimes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from enginewatch.preflight.capability import Capability
from enginewatch.preflight.devices import Devices, shipped_devices
from enginewatch.preflight.facts import Facts

_RUNTIMES: Final = {"tensorrt-llm": "trtllm", "vllm": "vllm", "sglang": "sglang"}


class Target(NamedTuple):
    """`gpu` is the name as it was given, `model` that of the table, empty where it has none.

    `capability` is None where neither the driver nor the table tells it.
    """

    gpu: str
    model: str
    capability: Capability | None
    where: str

    @property
    def is_tegra(self) -> bool:
        architecture = self.capability and shipped_devices().architectures.get(self.capability)
        return bool(architecture and architecture.tegra)


def targets(facts: Facts, devices: Devices | None = None) -> Iterator[Target]:
    known = devices or shipped_devices()
    for each in facts.gpus:
        row = known.named(each.model)
        capability = Capability(*each.capability) if each.capability else None
        if capability is None and row is not None:
            capability = row.capability
        yield Target(each.model, row.name if row else "", capability, each.where)


def runtimes(facts: Facts) -> tuple[str, ...]:
    """What will run a checkpoint, as far as commands, repositories and versions tell."""
    found = [launch.runtime for launch in facts.launches]
    if any(model.is_trtllm for each in facts.repositories for model in each.models):
        found.append("trtllm")
    if not found:
        found = [_RUNTIMES[each.name] for each in facts.versions if each.name in _RUNTIMES]
    return tuple(dict.fromkeys(found))
