"""Deadlines that a target answers for, but not for this process when it gets no processor."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

_BEAT: Final = 0.1


class LagClock:
    """How many seconds the event loop has been late, all in all, since this was started.

    On a machine that is too busy, or with a thousand new targets at once, an answer
    may wait in its socket until after the deadline because nobody got to read it.
    """

    def __init__(self, timer: Callable[[], float] = time.monotonic):
        self._timer: Final = timer
        self._late = 0.0
        self._beat = timer()

    def __call__(self) -> float:
        """Counted up to now: the current beat is late if it should have come before."""
        return self._late + max(0.0, self._timer() - self._beat - _BEAT)

    def beat(self) -> None:
        """To be called every tenth of a second by the loop itself."""
        self._late, self._beat = self(), self._timer()

    async def run(self) -> None:
        self._beat = self._timer()
        while True:
            await asyncio.sleep(_BEAT)
            self.beat()


async def within(seconds: float, work: Coroutine[Any, Any, T], lag: Callable[[], float]) -> T:
    """The result of `work`, if it comes in time. Raises TimeoutError, and what `work` raises.

    Time in which the loop was late does not count, but for no more than `seconds`.
    """
    task = asyncio.ensure_future(work)
    try:
        late = lag()
        done, _ = await asyncio.wait({task}, timeout=seconds)
        if not done:
            more = min(lag() - late, seconds)
            done, _ = await asyncio.wait({task}, timeout=more)
        if done:
            return task.result()
        raise TimeoutError
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
