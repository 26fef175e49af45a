"""How many scrapes may want the processor at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

_PLACES: Final = 64
_PATIENCE: Final = 0.1


class Gate:
    """Lets scrapes in as fast as this process can serve them.

    Without it, a process that is short of processor time would begin a thousand
    scrapes, serve all of them a little, and finish none before its deadline. A
    scrape keeps its place until it ends or, so that targets that hang keep nobody
    out, until it has done nothing but wait: for a tenth of a second in which the
    event loop was not late. So 640 targets a second can hang.
    """

    def __init__(
        self, lag: Callable[[], float], places: int = _PLACES, patience: float = _PATIENCE
    ):
        self._lag: Final = lag
        self._patience: Final = patience
        self._places: Final = asyncio.Semaphore(places)

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for a place, and have it."""
        await self._places.acquire()
        place = _Place(self._places, self._lag)
        place.give_up_after(self._patience)
        try:
            yield
        finally:
            place.leave()


class _Place:
    def __init__(self, places: asyncio.Semaphore, lag: Callable[[], float]):
        self._places: Final = places
        self._lag: Final = lag
        self._late = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def give_up_after(self, seconds: float) -> None:
        self._late = self._lag()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        late = self._lag() - self._late
        if late > 0:
            self.give_up_after(late)
        else:
            self.leave()

    def leave(self) -> None:
        """Give the place to the next; does nothing the second time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._places.release()
