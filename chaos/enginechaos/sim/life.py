"""One request as the API server sees it: what the histograms of every dialect are made of. Seconds,
monotonic."""

from __future__ import annotations

from dataclasses import dataclass

from enginechaos.sim.engine import Output, Request


@dataclass
class Life:
    request: Request
    arrived: float
    scheduled: float = 0.0
    first: float = 0.0
    last: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated: int = 0
    outputs: int = 0
    preemptions: int = 0
    finished: str | None = None

    def take(self, output: Output, now: float) -> float | None:
        """Book new tokens; the gap since the output before them, None for the first."""
        gap = now - self.last if self.outputs else None
        if gap is None:
            self.first = now
            self.scheduled = output.scheduled_at
            self.prompt_tokens = output.prompt_tokens
            self.cached_tokens = output.cached_tokens
        self.last = now
        self.outputs += 1
        self.generated += len(output.pieces)
        self.preemptions += output.preemptions
        self.finished = output.finish
        return gap

    @property
    def queued(self) -> float:
        return self.scheduled - self.arrived

    @property
    def prefill(self) -> float:
        return self.first - self.scheduled

    @property
    def decode(self) -> float:
        return self.last - self.first

    @property
    def inference(self) -> float:
        return self.last - self.scheduled

    @property
    def whole(self) -> float:
        return self.last - self.arrived

    @property
    def per_token(self) -> float:
        """Mean seconds of a token after the first."""
        return self.decode / (self.generated - 1) if self.generated > 1 else 0.0
