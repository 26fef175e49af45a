"""Which sequence gets how many tokens of the next step: continuous batching under one token budget.

The rules are vLLM V1's (v1/core/sched/scheduler.py): there is no decode or prefill phase; the
running come first, in the order of their admission, and what they leave is for the waiting; when
the KV cache is full the youngest is preempted and starts over, and nothing is admitted in that
step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from enginechaos.sim.blocks import BlockPool


@dataclass(frozen=True)
class Limits:
    """Of one step: tokens in all, sequences, draft tokens for each decode."""

    max_num_batched_tokens: int
    max_num_seqs: int
    speculative_tokens: int = 0
    chunked_prefill: bool = True
    whole_prompt_must_fit: bool = True
    """vLLM's scheduler_reserve_full_isl: admitted only where the KV cache has room for all of the
    prompt."""


@dataclass(eq=False)
class Sequence:
    """A request in the engine. `prompt` is its token ids; `computed` of them all are in the KV
    cache."""

    id: str
    prompt: tuple[int, ...]
    max_tokens: int
    output: int = 0
    computed: int = 0
    cached: int = 0
    preemptions: int = 0
    prefixes: list[int] = field(default_factory=list)

    @property
    def length(self) -> int:
        return len(self.prompt) + self.output

    @property
    def decoding(self) -> bool:
        """All but the last token is computed, and that one is the engine's own."""
        return self.output > 0 and self.computed == self.length - 1


@dataclass(frozen=True, slots=True)
class Share:
    """What one sequence gets of a step. `context` is how many tokens it had computed before."""

    sequence: Sequence
    tokens: int
    context: int
    drafted: int = 0

    @property
    def samples(self) -> bool:
        """Whether it ends with a new token, or is a part of a prompt that goes on."""
        return self.context + self.tokens >= self.sequence.length


@dataclass(frozen=True, slots=True)
class Step:
    shares: tuple[Share, ...]
    preempted: tuple[Sequence, ...] = ()
    admitted: tuple[Sequence, ...] = ()

    @property
    def tokens(self) -> int:
        return sum(share.tokens for share in self.shares)

    @property
    def rows(self) -> int:
        """Rows of logits: one a sequence that samples, and one for each of its draft tokens."""
        return sum(1 + share.drafted for share in self.shares if share.samples)


class Scheduler:
    def __init__(self, limits: Limits, pool: BlockPool):
        self.limits: Final = limits
        self.pool: Final = pool
        self.running: list[Sequence] = []
        self.waiting: deque[Sequence] = deque()

    def add(self, sequence: Sequence) -> None:
        sequence.prefixes = self.pool.prefixes(sequence.prompt)
        self.waiting.append(sequence)

    def remove(self, sequence: Sequence) -> None:
        """It has ended, or nobody waits for it any more."""
        if sequence in self.running:
            self.running.remove(sequence)
        elif sequence in self.waiting:
            self.waiting.remove(sequence)
        self.pool.give_back(sequence.id)

    def schedule(self) -> Step:
        budget = self.limits.max_num_batched_tokens
        preempted: list[Sequence] = []
        shares: list[Share] = []
        index = 0
        while index < len(self.running) and budget > 0:
            sequence = self.running[index]
            share = self._next(sequence, budget)
            if not self._make_room(share, preempted):
                break
            shares.append(share)
            budget -= share.tokens
            index += 1
        if preempted:
            return Step(tuple(shares), tuple(preempted))
        admitted = self._admit(budget)
        return Step((*shares, *admitted), admitted=tuple(each.sequence for each in admitted))

    def complete(self, step: Step, accepted: Mapping[str, int]) -> dict[str, int]:
        """The step was computed; how many new tokens each sequence has. `accepted` are draft
        tokens.

        Sequences that were removed meanwhile are passed over.
        """
        new: dict[str, int] = {}
        alive = {id(each) for each in self.running}
        for share in step.shares:
            sequence = share.sequence
            if id(sequence) not in alive:
                continue
            if not share.samples:
                sequence.computed = share.context + share.tokens
                continue
            taken = min(accepted.get(sequence.id, 0), share.drafted)
            count = min(1 + taken, sequence.max_tokens - sequence.output)
            sequence.computed = sequence.length + count - 1
            sequence.output += count
            new[sequence.id] = count
            full = len(sequence.prompt) // self.pool.block_size
            if sequence.output == count:
                self.pool.remember(sequence.id, sequence.prefixes[:full])
        return new

    def _next(self, sequence: Sequence, budget: int) -> Share:
        missing = sequence.length - sequence.computed
        drafts = self.limits.speculative_tokens if sequence.decoding else 0
        tokens = min(missing + drafts, budget)
        return Share(sequence, tokens, sequence.computed, max(0, tokens - missing))

    def _make_room(self, share: Share, preempted: list[Sequence]) -> bool:
        """Take its blocks, preempting from the end of the list; False when it was itself the
        last."""
        owner = share.sequence
        while not self.pool.take(owner.id, share.context + share.tokens):
            victim = self.running.pop()
            self.pool.give_back(victim.id)
            victim.computed = 0
            victim.preemptions += 1
            preempted.append(victim)
            self.waiting.appendleft(victim)
            if victim is owner:
                return False
        return True

    def _admit(self, budget: int) -> list[Share]:
        shares: list[Share] = []
        while self.waiting and budget > 0 and len(self.running) < self.limits.max_num_seqs:
            sequence = self.waiting[0]
            found = self.pool.share(sequence.id, sequence.prefixes)
            found = min(found, (sequence.length - 1) // self.pool.block_size * self.pool.block_size)
            missing = sequence.length - found
            tokens = min(missing, budget)
            whole = sequence.length if self.limits.whole_prompt_must_fit else found + tokens
            in_one = self.limits.chunked_prefill or tokens == missing
            fits = self.pool.needed(sequence.id, whole) <= self.pool.free
            if not (in_one and fits and self.pool.take(sequence.id, found + tokens)):
                self.pool.give_back(sequence.id)
                break
            sequence.computed = sequence.cached = found
            self.waiting.popleft()
            self.running.append(sequence)
            shares.append(Share(sequence, tokens, found))
            budget -= tokens
        return shares
