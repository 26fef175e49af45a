"""Functions of a range vector: from each series' window of samples to one sample.

Each kernel maps a matrix to values and their presence, row by row; the
arithmetic is in `rates`, `overtime` and `regression`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np

from enginewatch.promql import overtime, rates, regression
from enginewatch.promql.aggregate import out_of_range
from enginewatch.promql.ast import Call, MatrixSelector
from enginewatch.promql.context import Context, unwrapped
from enginewatch.promql.errors import EvaluationError
from enginewatch.promql.functions_labels import one_for
from enginewatch.promql.values import Matrix, Vector, no_series
from enginewatch.store.base import BoolArray, FloatArray, Layout

Columns = tuple[FloatArray, BoolArray]
VectorFunction = Callable[[Call, Context], Vector]

COUNTER_ENDINGS: Final = ("_total", "_sum", "_count", "_bucket")


def _applied(kernel: Callable[[Matrix], Columns], call: Call, context: Context) -> Vector:
    matrix = context.matrix(call.args[0])
    return context.nameless(matrix.layout, *kernel(matrix))


def _named(kernel: Callable[[Matrix], Columns], call: Call, context: Context) -> Vector:
    """For functions that return a sample as it is, name and all."""
    matrix = context.matrix(call.args[0])
    values, present = kernel(matrix)
    return Vector(matrix.layout, values, present, nameless=matrix.nameless)


def _extrapolated(counter: bool, per_second: bool, call: Call, context: Context) -> Vector:
    matrix = context.matrix(call.args[0])
    if counter:
        _doubt_counters(matrix.layout, call, context)
    query = context.query
    values, present = rates.extrapolated(
        matrix, counter=counter, per_second=per_second, as_in_2x=query.left_closed
    )
    return context.nameless(matrix.layout, values, present)


def _doubt_counters(layout: Layout, call: Call, context: Context) -> None:
    """Remark on names that no counter should have, for series straight from a selector."""
    operand = unwrapped(call.args[0])
    if not isinstance(operand, MatrixSelector):
        return
    for name in layout.derive("doubtful counters", lambda: _doubtful(layout)):
        context.inform(
            "metric might not be a counter, name does not end in"
            f' _total/_sum/_count/_bucket: "{name}"',
            operand.pos,
        )


def _doubtful(layout: Layout) -> list[str]:
    names = {each.name for each in layout.labels}
    return sorted(name for name in names if name and not name.endswith(COUNTER_ENDINGS))


def _predict_linear(call: Call, context: Context) -> Vector:
    matrix = context.matrix(call.args[0])
    ahead = context.scalar(call.args[1])
    slope, level, present = regression.fitted(matrix, context.at)
    return context.nameless(matrix.layout, slope * ahead + level, present)


def _quantile_over_time(call: Call, context: Context) -> Vector:
    probability = context.scalar(call.args[0])
    matrix = context.matrix(call.args[1])
    present = matrix.counts > 0
    beyond = None
    if present.any():
        beyond = out_of_range(probability, call.args[0].pos, context)
    if beyond is None:
        values = overtime.quantile(matrix, probability)
    else:
        values = np.full(len(matrix.layout), beyond)
    return context.nameless(matrix.layout, values, present)


def _double_exponential_smoothing(call: Call, context: Context) -> Vector:
    matrix = context.matrix(call.args[0])
    level, trend = context.scalar(call.args[1]), context.scalar(call.args[2])
    for what, factor in (("smoothing", level), ("trend", trend)):
        if not 0 < factor < 1:
            raise EvaluationError(f"invalid {what} factor. Expected: 0 < tf < 1, got: {factor:f}")
    return context.nameless(matrix.layout, *regression.smoothed(matrix, level, trend))


def _absent_over_time(call: Call, context: Context) -> Vector:
    matrix = context.matrix(call.args[0])
    return no_series() if matrix.counts.any() else one_for(call.args[0])


FUNCTIONS: Final[dict[str, VectorFunction]] = {
    **{name: partial(_applied, kernel) for name, kernel in overtime.KERNELS.items()},
    "absent_over_time": _absent_over_time,
    "changes": partial(_applied, rates.changes),
    "delta": partial(_extrapolated, False, False),
    "deriv": partial(_applied, regression.slope),
    "double_exponential_smoothing": _double_exponential_smoothing,
    "first_over_time": partial(_named, overtime.first),
    "idelta": partial(_applied, partial(rates.instant, counter=False)),
    "increase": partial(_extrapolated, True, False),
    "irate": partial(_applied, partial(rates.instant, counter=True)),
    "last_over_time": partial(_named, overtime.last),
    "predict_linear": _predict_linear,
    "quantile_over_time": _quantile_over_time,
    "rate": partial(_extrapolated, True, True),
    "resets": partial(_applied, rates.resets),
}
