"""What is watched on this machine itself: its GPUs and its engines' processes."""

from __future__ import annotations

import socket
from typing import Annotated, ClassVar, Final, Self

from pydantic import Field, model_validator

from enginewatch.config.section import (
    ConfigPath,
    PositiveDuration,
    Section,
    fault,
    host_and_port,
)
from enginewatch.model import compile_re2

_GROUPS: Final = frozenset({"rank", "dp", "title"})


class MachineSection(Section):
    """What the sections of this machine have in common."""

    enabled: bool = True
    interval: PositiveDuration = 1_000
    instance: str = Field(default_factory=socket.gethostname)
    """The label of all that belongs to no scraped target: the name of the host."""


class NvmlConfig(MachineSection):
    """GPUs, read through the driver. Without one there is nothing to read, and no harm."""

    slow_interval: PositiveDuration = 30_000
    """Of readings that take milliseconds, or hardly change."""
    timeout: PositiveDuration = 10_000
    """How late a poll may be until the driver is taken to hang."""
    start_timeout: PositiveDuration = 60_000
    """The same for the first poll, as long as none has come: a driver that is not kept loaded takes
    seconds a GPU. After that, `timeout` and twice as long as the slowest start took."""
    deployment: str | None = None
    """What the GPUs serve; the only deployment of scrape_configs if there is just one."""
    deployments: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """What some of them serve: deployments with their GPUs, by index or UUID."""
    gpus: int | None = Field(default=None, ge=0)
    """How many there must be, to see one that is gone before the first poll."""
    simulation: ConfigPath | None = None
    """A file to read instead of a driver (`enginewatch.nvml.simulation`)."""

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        seen: set[str] = set()
        for deployment, gpus in self.deployments.items():
            for index, gpu in enumerate(gpus):
                if gpu in seen:
                    raise fault(f"GPU {gpu} serves two", at=("deployments", deployment, index))
                seen.add(gpu)
        return self

    def deployment_of(self, gpu: str, uuid: str) -> str | None:
        """What the GPU of this index and UUID serves, as far as the section says."""
        for deployment, gpus in self.deployments.items():
            if gpu in gpus or uuid in gpus:
                return deployment
        return self.deployment


class EngineProcessConfig(Section):
    """Processes of an engine, told by their command line, beside those that are known anyway."""

    match: str
    """RE2, searched for in the command line. Its groups `rank`, `dp` and `title` are labels."""
    role: str = "worker"
    """`worker` and `engine` are ranks; `server` and anything else stand beside them."""
    runtime: str = ""
    deployment: str | None = None

    @model_validator(mode="after")
    def _pattern(self) -> Self:
        try:
            pattern = compile_re2(self.match)
        except ValueError as failure:
            raise fault(str(failure), at=("match",)) from None
        unknown = set(pattern.groupindex) - _GROUPS
        if unknown:
            raise fault(
                f"no label of that name: {min(unknown)}", "rank, dp and title are", ("match",)
            )
        return self


class ProcessesConfig(MachineSection):
    """Processes of engines on this machine."""

    scan_interval: PositiveDuration = 5_000
    """How often new processes are looked for; those known are read each `interval`."""
    timeout: PositiveDuration = 5_000
    """How late a look may be until the process table is taken to hang."""
    deployment: str | None = None
    """Of processes that belong to no scraped target; the only deployment if there is just one."""
    engines: tuple[EngineProcessConfig, ...] = ()

    elsewhere: ClassVar = {
        "process_names": "patterns of command lines go into engines",
    }


class NcclRasConfig(MachineSection):
    """A job of NCCL's (2.24 and newer), asked through its RAS socket how its ranks are."""

    interval: PositiveDuration = 10_000
    address: Annotated[str, host_and_port("localhost:28028")] = "localhost:28028"
    """What `NCCL_RAS_ADDR` is in the environment of the engine. Jobs that share one are answered
    for by whichever gets the connection: give each its own."""
    timeout: PositiveDuration = 12_000
    """Of a whole answer. NCCL itself gives ranks that do not answer up to 10 s."""
    deployment: str | None = None
    """What the job serves; the only deployment of scrape_configs if there is just one."""

    @property
    def is_named(self) -> bool:
        """Whether somebody expects a job there. Otherwise there may well be none."""
        return "address" in self.model_fields_set
