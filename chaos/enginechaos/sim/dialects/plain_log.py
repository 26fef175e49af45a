"""Log lines of the dialects that are not vLLM: the few that signatures look for, each in its
engine's form."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from enginechaos.sim.engine import Engine
from enginechaos.sim.settings import Settings


@dataclass(frozen=True)
class Lines:
    """What an engine says at each event, a text of one or more lines; empty for nothing."""

    started: str = ""
    no_memory_to_start: str = "{message}"
    server_failed: str = ""
    """The server's last words when its engine did not start."""
    hung: str = ""
    """At the hang timeout. {seconds} is that."""
    rank_died: str = ""
    """{rank}, {code}, {ranks}."""
    out_of_memory: str = "{message}"
    serving: str = ""
    engine_died: str = ""


@dataclass
class PlainLog:
    """Both of a server and of a core. `form` has {level}, {time} and {text}."""

    settings: Settings
    lines: Lines
    form: str
    stamp: str
    pid: int = field(default_factory=os.getpid)

    def say(self, text: str, level: str = "INFO") -> None:
        now = time.strftime(self.stamp)
        for line in filter(None, text.split("\n")):
            print(self.form.format(level=level, time=now, text=line), flush=True)

    def starting(self) -> None:
        pass

    def serving(self) -> None:
        self.say(self.lines.serving.format(port=self.settings.port))

    def interval(self, seconds: float) -> None:
        """Nothing is said at intervals."""

    def engine_died(self, waiting: int, *, silently: bool) -> None:  # noqa: ARG002
        self.say(self.lines.engine_died, "ERROR")

    def shutdown(self, killed: Sequence[tuple[str, int]]) -> None:
        pass

    def started(self, blocks: int) -> None:
        tokens = (blocks - 1) * self.settings.block_size
        self.say(self.lines.started.format(blocks=blocks, tokens=tokens))

    def start_failed(self) -> None:
        self.say(self.lines.server_failed, "ERROR")

    def no_memory_to_start(self, message: str) -> None:
        self.say(self.lines.no_memory_to_start.format(message=message), "ERROR")

    def step_is_late(self) -> None:
        pass

    def step_timed_out(self, engine: Engine) -> None:  # noqa: ARG002
        seconds = f"{self.settings.execute_model_timeout:g}"
        self.say(self.lines.hung.format(seconds=seconds), "ERROR")

    def rank_died(self, rank: int, code: int) -> None:
        ranks = self.settings.tensor_parallel
        self.say(self.lines.rank_died.format(rank=rank, code=code, ranks=ranks), "ERROR")

    def out_of_memory(self, message: str, engine: Engine) -> None:  # noqa: ARG002
        self.say(self.lines.out_of_memory.format(message=message), "ERROR")


TENSORRT: Final = ("[{time}] [TRT-LLM] [{level}] {text}", "%m/%d/%Y-%H:%M:%S")
"""Form and stamp of TensorRT-LLM's logger."""
