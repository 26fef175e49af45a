"""What the core asks of a dialect. Its page is fed with events, so what a page does not tell in a
hang it does not tell because no event came, and not because it was told to be silent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from starlette.routing import BaseRoute

from enginechaos.sim.engine import Engine, StepReport
from enginechaos.sim.life import Life
from enginechaos.sim.settings import Settings


class EngineState(Protocol):
    """What routes may know of the engine."""

    @property
    def dead(self) -> bool: ...

    async def generate_one(self) -> bool:
        """One token, however long it takes; False where the engine is dead."""

    async def say(self, name: str, prompt: str, limit: int) -> str | None:
        """The text of an answer; None where the engine is dead."""


@dataclass(frozen=True)
class Titles:
    """`server` may name the port: it is how a watchdog finds whose a process is."""

    server: str
    core: str
    ranks: Sequence[str]

    def rank(self, rank: int) -> str:
        return self.ranks[rank]


@dataclass
class Iteration:
    """What one step gave the API server: when (monotonic), prompts that ended in it, tokens,
    gaps."""

    now: float
    prompts: list[Life] = field(default_factory=list)
    generated: int = 0
    gaps: list[float] = field(default_factory=list)


class Page(Protocol):
    """The metrics of the API server, by events."""

    def arrived(self) -> None:
        """A request came in."""

    def cache_config(self, blocks: int) -> None:
        """The KV cache has this many blocks."""

    def preempted(self, times: int) -> None:
        """A request that was preempted `times` has resumed."""

    def step(self, report: StepReport, iteration: Iteration) -> None: ...

    def finished(self, life: Life, reason: str) -> None:
        """`reason`: stop, length, abort or error."""

    def http(self, path: str, method: str, status: int, seconds: float) -> None: ...


class QuietPage:
    """Books nothing; a dialect's page has of these what it books."""

    def arrived(self) -> None:
        pass

    def cache_config(self, blocks: int) -> None:
        pass

    def preempted(self, times: int) -> None:
        pass

    def step(self, report: StepReport, iteration: Iteration) -> None:
        pass

    def finished(self, life: Life, reason: str) -> None:
        pass

    def http(self, path: str, method: str, status: int, seconds: float) -> None:
        pass


class ServerLog(Protocol):
    """Lines of the API server."""

    def starting(self) -> None: ...

    def serving(self) -> None: ...

    def start_failed(self) -> None:
        """The engine core ended before it was ready."""

    def interval(self, seconds: float) -> None:
        """The periodic line, of what came since the last."""

    def engine_died(self, waiting: int, *, silently: bool) -> None:
        """`waiting` clients had a request in it. `silently`: without a word, as by SIGKILL."""

    def shutdown(self, killed: Sequence[tuple[str, int]]) -> None:
        """`killed`: title and pid of processes that had to be."""


class CoreLog(Protocol):
    """Lines of the engine core."""

    def started(self, blocks: int) -> None: ...

    def no_memory_to_start(self, message: str) -> None: ...

    def step_is_late(self) -> None: ...

    def step_timed_out(self, engine: Engine) -> None: ...

    def rank_died(self, rank: int, code: int) -> None: ...

    def out_of_memory(self, message: str, engine: Engine) -> None: ...


class Dialect(Protocol):
    settings: Settings
    titles: Titles
    version: str
    lingers: float
    """Seconds that the API server stays after the engine has died; negative: for ever."""
    hears_of_dead_ranks: bool
    """Whether the engine core learns that a rank's process is gone; else it waits for its
    answer."""
    hang_timeout: float | None
    """Seconds that a step may take; None: as long as it likes."""
    metrics_port: int | None
    """Where metrics are served too, beside the API's own port."""

    @property
    def page(self) -> Page:
        """Of this process; made when it is first asked for."""

    def routes(self, engine: EngineState) -> list[BaseRoute]:
        """Health, version and metrics; the OpenAI routes are everybody's."""

    def server_log(self) -> ServerLog: ...

    def core_log(self) -> CoreLog: ...
