"""One container as somebody asks for it: image, words, environment, GPUs, shared memory, probes.

`docker run` in a script, a compose file and Kubernetes all become this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from enginewatch.preflight.readers.shell import Word


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A check by the orchestrator, all times in seconds.

    `kind` is `liveness`, `readiness`, `startup` or `health` (docker). `asks` is the path or
    the command. What is not given has Kubernetes' default (or docker's).
    """

    kind: str
    asks: str
    where: str
    period_s: float
    timeout_s: float
    failures: int
    delay_s: float = 0.0

    @property
    def patience_s(self) -> float:
        """How long the container may fail, from its start, before the orchestrator acts."""
        return self.delay_s + self.period_s * self.failures


def probe_of(
    kind: str,
    asks: str,
    where: str,
    given: Mapping[str, float | None],
    defaults: Mapping[str, float],
) -> Probe:
    """With the defaults of its orchestrator where no time is given; both by `Probe`'s names."""
    filled = {**defaults, **{name: value for name, value in given.items() if value is not None}}
    return Probe(
        kind=kind,
        asks=asks,
        where=where,
        period_s=filled["period_s"],
        timeout_s=filled["timeout_s"],
        failures=int(filled["failures"]),
        delay_s=filled["delay_s"],
    )


def is_template(text: str) -> bool:
    """Whether a template's expression stands where its value will be (`{{ .Values.model }}`)."""
    return "{{" in text


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """`words` are command and arguments; where only arguments are given, `entrypoint` is False.

    `gpus` is how many the container gets, None where it does not say, -1 for all of the host;
    `gpu_resource` is Kubernetes' name for them, which tells a part of a GPU
    (`nvidia.com/mig-1g.10gb`) from a whole one.
    `shm_bytes` is the size of /dev/shm, None where it is the runtime's default; `shares_ipc`
    where it has the host's.
    """

    name: str
    kind: str
    image: str
    where: str
    words: tuple[Word, ...] = ()
    entrypoint: bool = False
    env: Mapping[str, Word] = field(default_factory=dict)
    gpus: int | None = None
    gpu_resource: str = ""
    shm_bytes: int | None = None
    shares_ipc: bool = False
    probes: tuple[Probe, ...] = ()
    grace_s: float | None = None
    notes: tuple[str, ...] = ()
    """What it has that could not be read: a value from a secret, a file that is not here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """What stands before the engine, and gives up on a request after `timeout_s`."""

    name: str
    kind: str
    where: str
    timeout_s: float
    setting: str
