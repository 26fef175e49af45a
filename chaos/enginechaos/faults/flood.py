"""Long prompts against running streams: reading them takes the steps that the streams wait for."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from enginechaos.actions import Action, EndsWithRun
from enginechaos.faults import looks
from enginechaos.faults.base import Evidence, Fault
from enginechaos.load import Load, Mix
from enginechaos.target import Target


@dataclass
class PromptFlood(Fault):
    """`clients` send prompts of `prompt_tokens`, one after the other, beside the load's own.

    The evidence is the quiet clients' own mean gap between tokens, over the last 5 s: `times`
    what it was before, and `at_least` seconds.
    """

    load: Load
    clients: int = 6
    prompt_tokens: int = 6000
    times: float = 5.0
    at_least: float = 0.1
    verify_within: ClassVar[float] = 30.0
    _before: float | None = field(default=None, init=False)
    _since: float = field(default=0.0, init=False)

    def blast_radius(self, target: Target) -> str:
        return (
            f"{self.clients} clients send prompts of {self.prompt_tokens} tokens to "
            f"{target.deployment}: all its streams are slow until the undo"
        )

    def undo(self, target: Target) -> Sequence[Action]:
        return [EndsWithRun(f"a flood of {self.clients} clients to {target.deployment}")]

    def inject(self, target: Target) -> None:
        self._before = self.load.figures(20.0).mean_gap
        self._since = time.time()
        length = (self.prompt_tokens * 9 // 10, self.prompt_tokens * 11 // 10)
        self.load.flood(Mix(self.clients, prompt=length, answer=(1, 8), pause=0.05))

    def verify(self, target: Target) -> Evidence:
        return looks.slower_streams(
            self.load, self._since, self._before, times=self.times, at_least=self.at_least
        )

    def retract(self, target: Target) -> None:
        self.load.calm()
