"""The GPUs that will serve, with what the tables know of their models; and the runtimes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from enginewatch.preflight.capability import Capability
from enginewatch.preflight.devices import shipped_devices
from enginewatch.preflight.facts import Facts
from enginewatch.preflight.readers.versions import RUNTIMES


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
        """Whether it is of a Jetson or Drive, which share no binaries with any other GPU."""
        architecture = self.capability and shipped_devices().architectures.get(self.capability)
        return bool(architecture and architecture.tegra)


def targets(facts: Facts) -> Iterator[Target]:
    """One for each model of GPU, in the order in which they were given."""
    for each in facts.gpus:
        row = shipped_devices().named(each.model)
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
        found = [RUNTIMES[each.name] for each in facts.versions if each.name in RUNTIMES]
    return tuple(dict.fromkeys(found))
