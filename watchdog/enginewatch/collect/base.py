"""What every collector beside the scrape has in common: a life, and rounds of samples."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Protocol

from enginewatch.model import Millis, Sample

Write = Callable[[Hashable, Millis, Iterable[Sample]], None]
"""Writes one round: all that the source of this key has to say at this time. A series that was
in its last round and is not in this one ends, as in `store.source`."""


class Collector(Protocol):
    """Learns of targets by other means than their pages, in the event loop that starts it.

    A collector has deadlines of its own: one that hangs hurts only itself.
    """

    def start(self) -> None:
        """Begin. Called once, in a running event loop."""
        ...

    async def stop(self) -> None:
        """End, and let go of everything; what was written stays in the store."""
        ...
