"""What all sources of one head share, and the forgetting of sources that were removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import StrEnum
from threading import Lock
from typing import Final, Protocol

from enginewatch.model import Millis
from enginewatch.store.index import Index
from enginewatch.store.placement import Placement
from enginewatch.store.rings import LONG_AGO

Keep = Callable[[str], Millis | None]
"""How long samples of a metric of this name must stay readable; None: they are not wanted.

Asked for every new series while the head is locked, so it is quick and pure.
"""

_REMOVED_EVERY: Final[Millis] = 30_000


class Refusal(StrEnum):
    """Why a sample was not stored."""

    LATE = "late"
    """Its round is not after the source's newest one."""
    DUPLICATE = "duplicate"
    """The round has a sample of this series already."""
    RETIRED = "retired"
    """Its series was forgotten since the caller resolved it."""
    REMOVED = "removed"
    """Its source was removed."""


class Removed(Protocol):
    """A source that writes no more and still has samples to read."""

    def sweep(self, now: Millis) -> None: ...
    def step_back(self, now: Millis) -> None: ...
    def is_empty(self) -> bool: ...


@dataclass(slots=True)
class Core:
    """The lock, and everything that is only touched under it.

    `forget(key)` is called when nothing is left of a removed source.
    """

    keep: Keep
    step_tolerance: Millis
    forget: Callable[[Hashable], object]
    lock: Lock = field(default_factory=Lock)
    index: Index = field(default_factory=Index)
    placement: Placement = field(default_factory=Placement)
    removed: dict[Hashable, Removed] = field(default_factory=dict)
    refused: Counter[Refusal] = field(default_factory=Counter)
    appended: int = 0
    steps: int = 0
    _sweep_at: Millis = LONG_AGO

    def tick(self, now: Millis) -> None:
        """A round was written: time for removed sources goes on."""
        if self.removed and now >= self._sweep_at:
            self._sweep_at = now + _REMOVED_EVERY
            self.sweep_removed(now)

    def sweep_removed(self, now: Millis) -> None:
        for source in self.removed.values():
            source.sweep(now)
        self.drop_empty()

    def drop_empty(self) -> None:
        """Forget removed sources of which nothing is left."""
        for key, source in list(self.removed.items()):
            if source.is_empty():
                del self.removed[key]
                self.forget(key)

    def step_back(self, now: Millis) -> None:
        """The clock went back: what removed sources wrote after `now` must not come to pass again.

        Other sources see to it themselves with their next round.
        """
        self.steps += 1
        self._sweep_at = now
        for source in self.removed.values():
            source.step_back(now)
