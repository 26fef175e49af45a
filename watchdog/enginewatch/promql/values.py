"""What expressions evaluate to, and what may be said beside the answer.

A vector is three columns over a `Layout`: the layout names the rows, `present`
tells which of them exist at this instant. Arrays are never changed once they
are in a value, so values share them freely.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from enginewatch.model import EMPTY_LABELS, Labels, Millis
from enginewatch.promql.ast import NOWHERE, Position, ValueType
from enginewatch.promql.errors import locate
from enginewatch.store.base import BoolArray, FloatArray, IntArray, Layout


class Level(StrEnum):
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Annotation:
    """A remark on an answer that stands nonetheless, as Prometheus gives them to a client."""

    level: Level
    message: str
    pos: Position = NOWHERE

    def describe(self, expr_text: str) -> str:
        """The remark as Prometheus words it, with line and column in `expr_text`."""
        line, column = locate(expr_text, self.pos.start)
        return f"PromQL {self.level}: {self.message} ({line}:{column})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """Base of all results."""

    annotations: tuple[Annotation, ...] = field(default=(), compare=False)

    @property
    def type(self) -> ValueType:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Scalar(Value):
    value: float

    @property
    def type(self) -> ValueType:
        return ValueType.SCALAR


@dataclass(frozen=True, slots=True)
class String(Value):
    value: str

    @property
    def type(self) -> ValueType:
        return ValueType.STRING


@dataclass(frozen=True, slots=True, eq=False)
class Vector(Value):
    """One sample at most of each series in `layout`; where `present` is False, `values` is rubbish.

    `times` are the samples' own times, known only straight after a selector.
    `order` lists the present rows as sort() or topk() wants them shown.
    `nameless` marks rows whose name is to go at the end (delayed name removal
    only, None where no row is marked).
    """

    layout: Layout
    values: FloatArray
    present: BoolArray
    times: IntArray | None = None
    order: IntArray | None = None
    nameless: BoolArray | None = None

    @property
    def type(self) -> ValueType:
        return ValueType.VECTOR

    def __len__(self) -> int:
        """How many series are present."""
        return int(np.count_nonzero(self.present))

    def rows(self) -> IntArray:
        """The present rows, in the order to show them."""
        return np.flatnonzero(self.present) if self.order is None else self.order

    def samples(self) -> Iterator[tuple[Labels, float]]:
        """The present series and their values."""
        labels, rows = self.layout.labels, self.rows()
        for row, value in zip(rows.tolist(), self.values[rows].tolist(), strict=True):
            yield labels[row], value


@dataclass(frozen=True, slots=True, eq=False)
class Matrix(Value):
    """Samples with `start < time <= end`, a row a series, packed to the left as in `Window`.

    For a 2.x window `start` itself belongs to it.
    """

    layout: Layout
    values: FloatArray
    times: IntArray
    counts: IntArray
    start: Millis
    end: Millis
    nameless: BoolArray | None = None

    @property
    def type(self) -> ValueType:
        return ValueType.MATRIX

    def series(self) -> Iterator[Series]:
        """The series that have samples."""
        for row in np.flatnonzero(self.counts).tolist():
            count = self.counts[row]
            yield Series(self.layout.labels[row], self.times[row, :count], self.values[row, :count])


class Series(NamedTuple):
    """A series' samples in order of time."""

    labels: Labels
    times: IntArray
    values: FloatArray


@dataclass(frozen=True, slots=True)
class RangeResult:
    """The answer to a range query: series in order of their labels, without empty ones."""

    series: tuple[Series, ...]
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """What one query may cost; None means any amount.

    `samples` counts every sample read, those of subqueries' steps too, and one
    for each step; `series` bounds a single selector or result. `expired` is
    asked before each step whether the query has run out of time.
    """

    samples: int | None = None
    series: int | None = None
    expired: Callable[[], bool] | None = None


UNLIMITED = Limits()

SINGLE = Layout((EMPTY_LABELS,))
"""The layout of `vector(1)` and whatever else is one series without labels."""

NOTHING = Layout(())


def no_series() -> Vector:
    return Vector(NOTHING, np.empty(0), np.empty(0, dtype=np.bool_))


def single(value: float) -> Vector:
    """A vector of one series without labels."""
    return Vector(SINGLE, np.array([value]), np.ones(1, dtype=np.bool_))
