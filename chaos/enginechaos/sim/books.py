"""What the API server books of each request and each step, for its page. Pure: the clock is an
argument."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from enginechaos.sim.dialects.base import Iteration, Page
from enginechaos.sim.engine import Output, Request, StepReport
from enginechaos.sim.life import Life


class Books:
    def __init__(self, page: Page):
        self._page: Final = page
        self._lives: dict[str, Life] = {}

    @property
    def open(self) -> int:
        """Requests that have not ended."""
        return len(self._lives)

    def arrived(self, request: Request, now: float) -> None:
        self._lives[request.id] = Life(request, now)
        self._page.arrived()

    def take(self, report: StepReport, outputs: Iterable[Output], now: float) -> Sequence[Output]:
        """Book one step; the outputs that somebody still waits for."""
        iteration = Iteration(now)
        wanted: list[Output] = []
        ended: list[Life] = []
        for output in outputs:
            life = self._lives.get(output.id)
            if life is None:
                continue
            wanted.append(output)
            self._book(life, output, iteration)
            if output.finish:
                ended.append(self._lives.pop(output.id))
        self._page.step(report, iteration)
        for life in ended:
            self._page.finished(life, life.finished or "stop")
        return wanted

    def left(self, request: str, reason: str) -> bool:
        """Nobody waits for it any more: `abort` or `error`. False where it had ended."""
        life = self._lives.pop(request, None)
        if life is None:
            return False
        self._page.finished(life, reason)
        return True

    def _book(self, life: Life, output: Output, iteration: Iteration) -> None:
        gap = life.take(output, iteration.now)
        iteration.generated += len(output.pieces)
        if gap is None:
            iteration.prompts.append(life)
        else:
            iteration.gaps.append(gap)
        if output.preemptions:
            self._page.preempted(output.preemptions)
