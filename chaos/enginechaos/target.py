"""A target as faults and tests see it: an engine that serves, and a way to act on its machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx

from enginechaos.actors import Actor, Local
from enginechaos.errors import TargetError
from enginechaos.processes import Process

TIERS: Final = ("sim", "vllm-cpu", "gpu", "staging")
"""What a result can certify, in the order of how much it says about production."""

ROLES: Final = {
    "rank": r"^VLLM::Worker(?:_DP\d+)?_TP(?P<rank>\d+)",
    "engine": r"^VLLM::EngineCore",
    "server": r"vllm serve|vllm\.entrypoints|enginechaos\.sim|^VLLM::APIServer",
}
"""How vLLM's processes call themselves; `processes:` of a target file says it for others."""


@dataclass(frozen=True)
class Limits:
    """What a run may cost: seconds that one fault may last, and that all of it may take."""

    fault_seconds: float = 180.0
    run_seconds: float = 3600.0


@dataclass(frozen=True)
class Guard:
    """A signal that ends a fault when it leaves its bounds: PromQL, asked of the watchdog."""

    query: str
    above: float | None = None
    below: float | None = None

    def broken_by(self, value: float) -> bool:
        too_high = self.above is not None and value > self.above
        return too_high or (self.below is not None and value < self.below)

    def __str__(self) -> str:
        bounds = {"above": self.above, "below": self.below}
        return f"{self.query} " + " or ".join(
            f"{word} {bound:g}" for word, bound in bounds.items() if bound is not None
        )


@dataclass(frozen=True)
class Target:
    """`url` is the base of the engine's OpenAI-compatible API.

    `table()` gives the processes that are the engine's and nobody else's: no fault
    touches any other.
    """

    name: str
    deployment: str
    tier: str
    url: str
    metrics_url: str
    model: str
    table: Callable[[], Sequence[Process]]
    actor: Actor = field(default_factory=Local)
    runtime: str = "vllm"
    log_files: tuple[Path, ...] = ()
    gpu_file: Path | None = None
    roles: dict[str, str] = field(default_factory=lambda: dict(ROLES))
    may_induce: frozenset[str] | None = None
    """Verdicts that may be induced here; None is all."""
    limits: Limits = Limits()
    guards: tuple[Guard, ...] = ()
    backups: Path = Path(".enginechaos/backups")
    """Where faults keep what they will put back (`Restore.of(path, target.backups)`)."""
    relauncher: Callable[..., None] | None = None

    @property
    def instance(self) -> str:
        """host:port of the metrics page, as the watchdog's label `instance` has it."""
        return httpx.URL(self.metrics_url).netloc.decode()

    def processes(self, role: str) -> list[Process]:
        """The engine's processes of a role, ranks in their order."""
        pattern = re.compile(self.roles[role])
        found = [(pattern.search(each.command), each) for each in self.table()]
        matched = [(match, each) for match, each in found if match]
        return [each for _, each in sorted(matched, key=lambda pair: _order(*pair))]

    def process(self, role: str) -> Process:
        """The first process of a role. Raises TargetError when there is none."""
        found = self.processes(role)
        if not found:
            raise TargetError(
                f"no process of {self.name} is its {role}",
                where=self.actor.place,
                hint=f"looked for {self.roles[role]}; say otherwise in `processes:`",
            )
        return found[0]

    def ranks(self) -> list[Process]:
        """Its tensor-parallel workers. Raises TargetError when there is none."""
        self.process("rank")
        return self.processes("rank")

    def relaunch(self, **changes: object) -> None:
        """Stop the engine and start it with what it was first started with, but for `changes`.
        Raises TargetError."""
        if self.relauncher is None:
            raise TargetError(
                f"{self.name} can't be relaunched from here",
                hint="only targets that the suite starts can; leave the hazard out of may_induce",
            )
        self.relauncher(**changes)


def _order(match: re.Match[str], process: Process) -> tuple[int, int]:
    rank = match.groupdict().get("rank")
    return (int(rank) if rank else 0, process.pid)
