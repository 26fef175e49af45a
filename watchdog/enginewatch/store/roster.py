"""The series of one source by the refs that its writer holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from enginewatch.model import Labels, Millis
from enginewatch.store.base import BoolArray, IntArray

_INDEX_BITS: Final = 32
_INDEX_MASK: Final = (1 << _INDEX_BITS) - 1


class Roster:
    """Refs, and what is known of each series whether it has samples or not.

    A ref is a generation and an index. The index is used again once its series is
    forgotten, so that churn costs no memory; the generation tells an old ref from
    the new one. `alive`, `ended` (when it last was) and the labels are by index.
    `waiting` are series that were resolved and have no sample yet, with their retention.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self.waiting: dict[int, Millis] = {}
        self._refs: dict[Labels, int] = {}
        self._labels: list[Labels | None] = []
        self._unused: list[int] = []
        self._generations: IntArray = np.zeros(0, np.int64)
        self._alive: BoolArray = np.zeros(0, np.bool_)
        self._ended: IntArray = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self._refs)

    @property
    def size(self) -> int:
        """Indices are below it."""
        return len(self._labels)

    @property
    def alive(self) -> BoolArray:
        return self._alive[: self.size]

    @property
    def ended(self) -> IntArray:
        return self._ended[: self.size]

    def ref(self, labels: Labels) -> int | None:
        return self._refs.get(labels)

    def labels(self, index: int) -> Labels:
        labels = self._labels[index]
        assert labels is not None
        return labels

    def enrol(self, labels: Labels, retention: Millis, now: Millis) -> int:
        """The ref of a new series, which waits for its first sample from `now` on."""
        if self._unused:
            index = self._unused.pop()
            self._labels[index] = labels
        else:
            index = self.size
            self._labels.append(labels)
            if index >= len(self._alive):
                for column in (self._generations, self._alive, self._ended):
                    column.resize(index + max(16, index // 8), refcheck=False)
        self._ended[index] = now
        self.waiting[index] = retention
        ref = int(self._generations[index]) << _INDEX_BITS | index
        self._refs[labels] = ref
        return ref

    def retire(self, indices: Iterable[int]) -> None:
        """Forget series; their refs are void from now on."""
        for index in indices:
            del self._refs[self.labels(index)]
            self._labels[index] = None
            self._unused.append(index)
            self._generations[index] += 1
            self._alive[index] = False
            self.waiting.pop(index, None)
            self.epoch += 1

    def indices(self, refs: IntArray) -> tuple[IntArray, BoolArray | None]:
        """The indices that refs hold, and which refs are still good; None where all are."""
        index = refs & _INDEX_MASK
        good = index < self.size
        good[good] = self._generations[index[good]] == refs[good] >> _INDEX_BITS
        return index, None if good.all() else good
