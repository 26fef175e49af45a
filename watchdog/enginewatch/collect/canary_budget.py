"""How many tokens the canary may cost an engine: a bucket that fills all the time."""

from __future__ import annotations

from typing import Final

from enginewatch.model import Millis

_HOUR: Final = 3_600_000


class Budget:
    """Holds an hour's tokens at most, and is full at the beginning."""

    def __init__(self, per_hour: int, now: Millis):
        self._per_hour: Final = per_hour
        self._left = float(per_hour)
        self._at = now

    def left(self, now: Millis) -> float:
        """What may be spent now; below 0 after a batch that cost more than was thought."""
        filled = self._per_hour * max(0, now - self._at) / _HOUR
        self._left, self._at = min(float(self._per_hour), self._left + filled), now
        return self._left

    def allows(self, cost: int, now: Millis) -> bool:
        """Whether a batch of this cost may begin. One that no hour could pay for may when the
        bucket is full: it is rare then, and not never."""
        return self.left(now) >= min(cost, self._per_hour)

    def spend(self, tokens: int, now: Millis) -> None:
        self._left = self.left(now) - tokens
