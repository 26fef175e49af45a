"""An engine is launched anew with a token budget that does not suit its load."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import ClassVar

from enginechaos.faults import looks
from enginechaos.faults.base import Evidence
from enginechaos.faults.relaunch import EndsInRelaunch
from enginechaos.load import Load
from enginechaos.target import Target


@dataclass
class SmallTokenBudget(EndsInRelaunch):
    """A relaunch with `max_num_batched_tokens` of `tokens`, far below what a full batch of decodes
    that draft asks for: max_num_seqs * (1 + speculative tokens). Whoever runs goes on as before;
    for others nothing is left of a step (vllm/v1/core/sched/scheduler.py: the running come first).

    The evidence is the clients' own time to the first token, over the last 5 s: `times` what it was
    before; and that the engine's own page has as many requests waiting as running.
    """

    load: Load
    tokens: int
    times: float = 3.0
    verify_within: ClassVar[float] = 30.0
    spared: ClassVar[str] = "its token budget is not changed"
    verdict: ClassVar[str] = "prefill_starvation"
    _before: float | None = field(default=None, init=False)

    def blast_radius(self, target: Target) -> str:
        return (
            f"{target.deployment} ({target.actor.place}) is launched anew with a token budget of "
            f"{self.tokens}, and again in the undo: all its requests fail then, and between the "
            "two they wait long for their first token"
        )

    def inject(self, target: Target) -> None:
        self._before = self.load.figures(20.0).mean_first
        self.owe()
        target.relaunch(max_num_batched_tokens=self.tokens)
        looks.load_is_back(target)

    def verify(self, target: Target) -> Evidence:
        now = self.load.figures(5.0).mean_first
        if self._before is None or now is None:
            return Evidence(False, "no client has had a first token to compare")
        running = looks.metric(target, "vllm:num_requests_running") or 0
        waiting = looks.metric(target, "vllm:num_requests_waiting") or 0
        return Evidence(
            now >= self.times * self._before and waiting >= running > 0,
            f"first tokens take {now:.2f} s, {self._before:.2f} s before; the page has "
            f"{running:g} requests running and {waiting:g} waiting",
        )


@dataclass
class WholePrompts(EndsInRelaunch):
    """A relaunch without chunked prefill, and with the budget that this takes: a prompt of any
    length (max_model_len) is read in one step, for which all running streams wait.

    The evidence is the clients' own mean gap between tokens, over the last 5 s.
    """

    load: Load
    longest: int = 8192
    """The engine's max_model_len."""
    times: float = 3.0
    at_least: float = 0.1
    verify_within: ClassVar[float] = 30.0
    spared: ClassVar[str] = "its prompts are read in chunks"
    verdict: ClassVar[str] = "prefill_starvation"
    _before: float | None = field(default=None, init=False)
    _since: float = field(default=0.0, init=False)

    def blast_radius(self, target: Target) -> str:
        return (
            f"{target.deployment} ({target.actor.place}) is launched anew without chunked prefill, "
            "and again in the undo: all its requests fail then, and between the two its streams "
            "stand still while a prompt is read"
        )

    def inject(self, target: Target) -> None:
        self._before = self.load.figures(20.0).mean_gap
        self.owe()
        target.relaunch(chunked_prefill=False, max_num_batched_tokens=self.longest)
        looks.load_is_back(target)
        self._since = time.time()

    def verify(self, target: Target) -> Evidence:
        return looks.slower_streams(
            self.load, self._since, self._before, times=self.times, at_least=self.at_least
        )
