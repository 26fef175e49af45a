"""The embedded store: recent samples in memory, for as long as the rules look back.

It keeps nothing across restarts. Writers append through a `Source` each, the
evaluator reads through the `Storage` contract, and either may be in any thread.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from enginewatch.model import Labels, Matcher, Metadata, Millis
from enginewatch.store import read
from enginewatch.store.base import Instant, Window
from enginewatch.store.core import Core, Keep, Refusal
from enginewatch.store.index import Selection
from enginewatch.store.plan import Plan, plan
from enginewatch.store.rings import LONG_AGO
from enginewatch.store.source import Source

DEFAULT_RETENTION: Final[Millis] = 3_600_000
DEFAULT_STEP_TOLERANCE: Final[Millis] = 10_000

_MOST_FAMILIES: Final = 10_000


class HeadStats(NamedTuple):
    """What the head holds now, and what it counted since it was made.

    `cells` are samples and the gaps between them; `bytes` are those of the arrays,
    not of labels. `shared` series have several writers. `steps` are those of the
    clock, backwards.
    """

    sources: int
    series: int
    shared: int
    cells: int
    bytes: int
    appended: int
    steps: int
    refused: Mapping[Refusal, int]


def keep_all(name: str) -> Millis:  # noqa: ARG001 - any name
    """Keep every metric for `DEFAULT_RETENTION`."""
    return DEFAULT_RETENTION


class Head:
    """A `Storage` in memory.

    `keep` says which metrics are stored and how long each stays readable (the
    longest range that is asked of it, plus the lookback). A round that is earlier
    than its source's newest by more than `step_tolerance` means that the clock
    was set back (see `Source`); by less, that it is late.
    """

    def __init__(self, *, keep: Keep = keep_all, step_tolerance: Millis = DEFAULT_STEP_TOLERANCE):
        self._sources: dict[Hashable, Source] = {}
        self._core: Final = Core(keep, step_tolerance, forget=self._sources.pop)
        self._metadata: dict[str, Metadata] = {}

    def source(self, key: Hashable) -> Source:
        """The source of this key: new, or as it was if it was removed and has samples left."""
        with self._core.lock:
            source = self._sources.get(key)
            if source is None:
                source = self._sources[key] = Source(key, self._core)
            else:
                source.revive()
            return source

    def update_metadata(self, families: Mapping[str, Metadata]) -> None:
        """Note what a page says of its metric families. The oldest names give way to new ones."""
        with self._core.lock:
            for name, metadata in families.items():
                if len(self._metadata) >= _MOST_FAMILIES and name not in self._metadata:
                    del self._metadata[next(iter(self._metadata))]
                self._metadata[name] = metadata

    def reconfigure(self, keep: Keep) -> None:
        """Keep other metrics, or for other times, from now on.

        What is no longer wanted is dropped, what is wanted for longer keeps the
        samples it has, and every source's `epoch` rises.
        """
        with self._core.lock:
            self._core.keep = keep
            for source in self._sources.values():
                source.reconfigure(keep)
            self._core.drop_empty()

    def instant(self, matchers: Sequence[Matcher], at: Millis, lookback: Millis) -> Instant:
        core = self._core
        after = at - lookback
        with core.lock:
            selection, how = self._select(matchers)
            layout, rings = selection.layout, core.placement.rings
            first = [read.newest_cells(rings, group, after, at) for group in how.first]
            shared = [read.cells(rings, group, after, at) for group in how.shared]
        return read.instant(layout, first, shared)

    def window(self, matchers: Sequence[Matcher], after: Millis, upto: Millis) -> Window:
        core = self._core
        with core.lock:
            selection, how = self._select(matchers)
            layout, rings = selection.layout, core.placement.rings
            first = [read.cells(rings, group, after, upto) for group in how.first]
            shared = [read.cells(rings, group, after, upto) for group in how.shared]
        return read.window(layout, first, shared)

    def series(
        self, matchers: Sequence[Matcher], after: Millis | None = None, upto: Millis | None = None
    ) -> Sequence[Labels]:
        if after is None and upto is None:
            with self._core.lock:
                return self._core.index.select(matchers).layout.labels
        found = self.window(
            matchers,
            LONG_AGO if after is None else after,
            -LONG_AGO if upto is None else upto,
        )
        return [found.layout.labels[i] for i in np.flatnonzero(found.counts).tolist()]

    def exists(self, name: str) -> bool:
        return self._core.index.holds(name)

    @property
    def names_changed(self) -> int:
        return self._core.index.names_changed

    def metadata(self) -> dict[str, Metadata]:
        with self._core.lock:
            return dict(self._metadata)

    def stats(self) -> HeadStats:
        core = self._core
        with core.lock:
            return HeadStats(
                sources=len(self._sources),
                series=len(core.index),
                shared=len(core.placement.writers),
                cells=sum(source.cell_count for source in self._sources.values()),
                bytes=core.placement.nbytes,
                appended=core.appended,
                steps=core.steps,
                refused={reason: core.refused[reason] for reason in Refusal},
            )

    def _select(self, matchers: Sequence[Matcher]) -> tuple[Selection, Plan]:
        """The selection, up to date, and where to read it. With the lock held."""
        placement = self._core.placement
        selection = self._core.index.select(matchers)
        if selection.planned != placement.moves:
            selection.plan = plan(placement, selection.series)
            selection.planned = placement.moves
        return selection, selection.plan
