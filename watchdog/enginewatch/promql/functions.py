"""All functions by name; here those between scalars and vectors, and those that tell a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from enginewatch.promql import functions_labels, functions_math, functions_range, histogram
from enginewatch.promql.ast import Call
from enginewatch.promql.context import Context
from enginewatch.promql.values import Scalar, Value, Vector, single

Function = Callable[[Call, Context], Value]


def _scalar(call: Call, context: Context) -> Scalar:
    """The value of a vector's only sample; NaN where there is not exactly one."""
    vector = context.vector(call.args[0])
    rows = np.flatnonzero(vector.present)
    return Scalar(float(vector.values[rows[0]]) if len(rows) == 1 else math.nan)


def _vector(call: Call, context: Context) -> Vector:
    return single(context.scalar(call.args[0]))


def _timestamp(call: Call, context: Context) -> Vector:
    """When each sample was taken; of anything but a selector, when it was computed."""
    vector = context.vector(call.args[0])
    times = np.full(len(vector.layout), context.at) if vector.times is None else vector.times
    return context.nameless(vector.layout, times / 1000, vector.present)


def _extreme(pick: Callable[[float, float], Any]) -> Function:
    """The smaller or larger of two numbers."""
    return lambda call, context: Scalar(float(pick(*map(context.scalar, call.args))))


_SCALARS: Final[dict[str, Callable[[Context], float]]] = {
    "end": lambda context: context.query.end / 1000,
    "pi": lambda _: math.pi,
    "range": lambda context: (context.query.end - context.query.start) / 1000,
    "start": lambda context: context.query.start / 1000,
    "step": lambda context: context.query.step / 1000,
    "time": lambda context: context.at / 1000,
}


def _plain(compute: Callable[[Context], float]) -> Function:
    return lambda _, context: Scalar(compute(context))


FUNCTIONS: Final[dict[str, Function]] = {
    **{name: _plain(compute) for name, compute in _SCALARS.items()},
    **functions_labels.FUNCTIONS,
    **functions_math.FUNCTIONS,
    **functions_range.FUNCTIONS,
    **histogram.FUNCTIONS,
    "max_of": _extreme(functions_math.larger),
    "min_of": _extreme(functions_math.smaller),
    "scalar": _scalar,
    "timestamp": _timestamp,
    "vector": _vector,
}

TIME_DEPENDENT: Final = frozenset({"predict_linear", "time", "timestamp"})
"""Functions whose value changes with the evaluation time even where their operands do not."""
