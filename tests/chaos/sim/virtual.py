"""An engine in virtual time: clients in closed loops against the pure core, hours in a second."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

from enginechaos.sim.blocks import BlockPool
from enginechaos.sim.engine import Engine, Output, Request
from enginechaos.sim.language import Language
from enginechaos.sim.scheduler import Limits
from enginechaos.sim.timing import Timing


def engine(limits: Limits, *, blocks: int = 20_000, timing: str | None = None) -> Engine:
    return Engine(limits, BlockPool(blocks, 16), Timing.load(timing), Language(), 8192)


@dataclass
class Client:
    """Asks again as soon as it is answered, always something new."""

    name: str
    prompt: int
    answer: int
    asked: int = 0
    last: float | None = None
    gaps: list[float] = field(default_factory=list)
    tokens: int = 0
    done: int = 0

    def request(self) -> Request:
        self.asked += 1
        self.last = None
        dice = random.Random(f"{self.name}/{self.asked}")
        words = " ".join(dice.choices(("ant", "bee", "cow", "dog", "elk"), k=self.prompt))
        return Request(f"{self.name}/{self.asked}", words, self.answer, ignore_eos=True)

    def take(self, output: Output, now: float) -> None:
        if self.last is not None:
            self.gaps.append(now - self.last)
        self.last = now
        self.tokens += len(output.pieces)
        self.done += output.finish is not None


def run(one: Engine, clients: Sequence[Client], now: float, seconds: float) -> float:
    """Let the clients talk for so long; clients that are new join in. The time it ends."""
    known = {client.name: client for client in clients}
    for client in clients:
        if not client.asked:
            one.add(client.request())
    end = now + seconds
    while now < end:
        step = one.schedule(now)
        now += one.seconds(step)
        for output in one.complete(step)[0]:
            client = known[output.id.partition("/")[0]]
            client.take(output, now)
            if output.finish:
                one.add(client.request())
    return now


def mean_gap(clients: Sequence[Client]) -> float:
    """Seconds, of the gaps since it was last asked for."""
    gaps = [gap for client in clients for gap in client.gaps]
    for client in clients:
        client.gaps.clear()
    return fmean(gaps)
