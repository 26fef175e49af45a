"""What the suite's own clients saw of an engine: gaps between tokens, first tokens, failures.

Users' figures, and evidence that does not pass through the watchdog. A gap that is still open
counts as far as it has come: a stream that stands still has no gaps to show otherwise.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import Final, NamedTuple

KEPT: Final = 200_000
"""Tokens that are remembered: hours of the load that the suite makes."""


class Token(NamedTuple):
    """A token of a stream. `at` is Unix time in seconds, `gap` since the one before it."""

    at: float
    gap: float
    first: bool


class Ended(NamedTuple):
    """A request that ended; `error` is empty where it ended well."""

    at: float
    error: str


@dataclass(frozen=True)
class Figures:
    """Of a span of time. Gaps are in seconds, and None where there was none."""

    seconds: float
    tokens: int
    mean_gap: float | None
    longest_gap: float | None
    mean_first: float | None
    """Time to the first token, of the requests that had one."""
    finished: int
    failed: int
    open: int
    """Requests under way at the end of the span."""
    last_error: str = ""

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds if self.seconds > 0 else 0.0

    def __str__(self) -> str:
        gaps = "no gaps"
        if self.mean_gap is not None and self.longest_gap is not None:
            gaps = f"gaps {self.mean_gap * 1000:.0f} ms, longest {self.longest_gap:.2f} s"
        failed = f", {self.failed} failed ({self.last_error})" if self.failed else ""
        return (
            f"{self.tokens_per_second:.1f} tokens/s, {gaps}, "
            f"{self.finished} requests done{failed}, {self.open} open"
        )


class Ledger:
    """Remembers tokens and ends; written by the clients' thread, read by the test's."""

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._tokens: Final[deque[Token]] = deque(maxlen=KEPT)
        self._ended: Final[deque[Ended]] = deque(maxlen=KEPT)
        self._open: Final[dict[int, tuple[float, bool]]] = {}
        """By request: when it was last heard of, and whether a token has come."""
        self._next = 0

    def begin(self, at: float) -> int:
        with self._lock:
            self._next += 1
            self._open[self._next] = (at, False)
            return self._next

    def token(self, request: int, at: float) -> None:
        with self._lock:
            last, begun = self._open[request]
            self._tokens.append(Token(at, at - last, first=not begun))
            self._open[request] = (at, True)

    def end(self, request: int, at: float, error: str = "") -> None:
        with self._lock:
            self._open.pop(request, None)
            self._ended.append(Ended(at, error))

    def forget(self, request: int) -> None:
        """Of a request that its own client took back: neither done nor failed."""
        with self._lock:
            self._open.pop(request, None)

    def figures(self, since: float, until: float) -> Figures:
        """Of the tokens and ends in [since, until]."""
        with self._lock:
            tokens = [t for t in self._tokens if since <= t.at <= until]
            ended = [e for e in self._ended if since <= e.at <= until]
            standing = [until - last for last, begun in self._open.values() if begun]
            waiting = len(self._open)
        gaps = [t.gap for t in tokens if not t.first]
        # An open gap says something only once it is longer than those that closed.
        typical = sum(gaps) / len(gaps) if gaps else 0.0
        gaps += [gap for gap in standing if gap > typical]
        firsts = [t.gap for t in tokens if t.first]
        errors = [e.error for e in ended if e.error]
        return Figures(
            seconds=until - since,
            tokens=len(tokens),
            mean_gap=sum(gaps) / len(gaps) if gaps else None,
            longest_gap=max(gaps, default=None),
            mean_first=sum(firsts) / len(firsts) if firsts else None,
            finished=len(ended) - len(errors),
            failed=len(errors),
            open=waiting,
            last_error=errors[-1] if errors else "",
        )

    def curve(self, since: float, until: float, step: float) -> list[tuple[float, float]]:
        """(time, tokens a second) for each step: the signal of a report's picture."""
        if until <= since:
            return []
        counts = [0] * (int((until - since) / step) + 1)
        with self._lock:
            for token in self._tokens:
                if since <= token.at <= until:
                    counts[int((token.at - since) / step)] += 1
        return [(since + n * step, count / step) for n, count in enumerate(counts)]
