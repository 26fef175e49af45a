"""The engine's step, pure: requests in, tokens out; the clock is an argument and nothing sleeps."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from enginechaos.sim.blocks import BlockPool
from enginechaos.sim.scheduler import Limits, Scheduler, Sequence, Step
from enginechaos.sim.timing import Timing
from enginechaos.sim.tokens import token_ids


@dataclass(frozen=True)
class Request:
    """What a client asks. `logprobs`: how many alternatives to each token, None for none.

    `echo`: the log-probabilities of the prompt's tokens are wanted too.
    """

    id: str
    prompt: str
    max_tokens: int = 16
    ignore_eos: bool = False
    logprobs: int | None = None
    echo: bool = False

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        return cls(**found)


@dataclass(frozen=True)
class Answer:
    """Tokens that the model says, each with its log-probability; `ended` by themselves, not by a
    limit."""

    pieces: tuple[str, ...]
    logprobs: tuple[float, ...]


class Model(Protocol):
    """What knows answers. `batch`: how many sequences share the step of the first token."""

    def answer(self, prompt: str, limit: int, *, ignore_eos: bool, batch: int) -> Answer: ...

    def likelihood(self, prompt: str, batch: int) -> tuple[float, ...]: ...


@dataclass(frozen=True, slots=True)
class Output:
    """New tokens of one request, and what happened to it since its last output."""

    id: str
    pieces: tuple[str, ...]
    logprobs: tuple[float, ...]
    finish: str | None
    """`stop` or `length` with the last tokens."""
    prompt_tokens: int
    cached_tokens: int
    scheduled_at: float
    preemptions: int
    """Times it was preempted, since the last output: told when it resumes, as vLLM does."""
    echoed: tuple[float, ...] = ()
    """With the first tokens of a request that asked for them: its prompt's log-probabilities."""


@dataclass(frozen=True, slots=True)
class StepReport:
    """What the engine tells of itself after every step, with or without outputs."""

    running: int
    waiting: int
    kv_usage: float
    prefix_queries: int
    prefix_hits: int
    prefill_tokens: int
    decode_tokens: int
    drafts: int
    draft_tokens: int
    accepted: int


@dataclass
class _Life:
    request: Request
    sequence: Sequence
    answer: Answer | None = None
    stops: bool = False
    scheduled_at: float = 0.0
    preemptions_told: int = 0


@dataclass
class Engine:
    limits: Limits
    pool: BlockPool
    timing: Timing
    model: Model
    max_model_len: int
    acceptance: float = 0.7
    seed: int = 0
    _lives: dict[str, _Life] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.scheduler = Scheduler(self.limits, self.pool)
        self._dice = random.Random(f"{self.seed}/drafts")

    @property
    def has_work(self) -> bool:
        return bool(self._lives)

    def add(self, request: Request) -> None:
        prompt = token_ids(request.prompt) or (0,)
        limit = max(1, min(request.max_tokens, self.max_model_len - len(prompt)))
        sequence = Sequence(request.id, prompt, limit)
        self._lives[request.id] = _Life(request, sequence)
        self.scheduler.add(sequence)

    def abort(self, request: str) -> None:
        """Nobody waits for it any more; unknown ones are passed over."""
        life = self._lives.pop(request, None)
        if life is not None:
            self.scheduler.remove(life.sequence)

    def schedule(self, now: float) -> Step:
        """The next step. Empty (no shares) where nothing that waits fits."""
        step = self.scheduler.schedule()
        for sequence in step.admitted:
            life = self._lives[sequence.id]
            if not life.scheduled_at:
                life.scheduled_at = now
        return step

    def seconds(self, step: Step) -> float:
        return self.timing.seconds(step.shares)

    def complete(self, step: Step) -> tuple[list[Output], StepReport]:
        """The step was computed: its tokens, and the state after it."""
        accepted = {
            share.sequence.id: self._accepted(share.drafted)
            for share in step.shares
            if share.drafted
        }
        new = self.scheduler.complete(step, accepted)
        outputs = [
            self._output(self._lives[name], count, len(step.shares)) for name, count in new.items()
        ]
        for output in outputs:
            if output.finish:
                self.abort(output.id)
        return outputs, self._report(step, accepted)

    def _accepted(self, drafted: int) -> int:
        count = 0
        while count < drafted and self._dice.random() < self.acceptance:
            count += 1
        return count

    def _output(self, life: _Life, count: int, batch: int) -> Output:
        sequence = life.sequence
        echoed: tuple[float, ...] = ()
        if life.answer is None:
            if life.request.echo:
                echoed = self.model.likelihood(life.request.prompt, batch)
            limit = sequence.max_tokens
            life.answer = self.model.answer(
                life.request.prompt, limit, ignore_eos=life.request.ignore_eos, batch=batch
            )
            life.stops = len(life.answer.pieces) < limit
            sequence.max_tokens = max(1, len(life.answer.pieces))
            count = min(count, sequence.max_tokens)
        ended = sequence.output >= sequence.max_tokens
        start = sequence.output - count
        told, life.preemptions_told = life.preemptions_told, sequence.preemptions
        return Output(
            id=sequence.id,
            pieces=life.answer.pieces[start : sequence.output],
            logprobs=life.answer.logprobs[start : sequence.output],
            finish=("stop" if life.stops else "length") if ended else None,
            prompt_tokens=len(sequence.prompt),
            cached_tokens=sequence.cached,
            scheduled_at=life.scheduled_at,
            preemptions=sequence.preemptions - told,
            echoed=echoed,
        )

    def _report(self, step: Step, accepted: Mapping[str, int]) -> StepReport:
        drafting = [share for share in step.shares if share.drafted]
        decoding = sum(share.tokens for share in step.shares if share.sequence.output > 1)
        return StepReport(
            running=len(self.scheduler.running),
            waiting=len(self.scheduler.waiting),
            kv_usage=self.pool.usage,
            prefix_queries=sum(each.length for each in step.admitted),
            prefix_hits=sum(each.cached for each in step.admitted),
            prefill_tokens=step.tokens - decoding,
            decode_tokens=decoding,
            drafts=len(drafting),
            draft_tokens=sum(share.drafted for share in drafting),
            accepted=sum(accepted.values()),
        )
