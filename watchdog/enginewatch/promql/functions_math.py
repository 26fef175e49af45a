"""Functions that map each sample to another: rounding, logarithms, angles, limits, dates."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from enginewatch.promql.ast import Call
from enginewatch.promql.context import Context
from enginewatch.promql.values import Vector, single
from enginewatch.store.base import FloatArray, IntArray

Elementwise = Callable[[FloatArray], FloatArray]
VectorFunction = Callable[[Call, Context], Vector]

DAY: Final = 86_400
EPOCH_WEEKDAY: Final = 4
"""1 January 1970 was a Thursday; Sunday is 0."""

DATABLE: Final = 2.0**53
"""Seconds since the epoch beyond which no date is computed, 285 million years away."""


def _mapped(change: Elementwise, call: Call, context: Context) -> Vector:
    vector = context.vector(call.args[0])
    return context.nameless(vector.layout, change(vector.values), vector.present)


def _sign(values: FloatArray) -> FloatArray:
    return np.where(values == 0, values, np.sign(values))


def smaller(a: Any, b: Any) -> Any:
    """As Go's `math.Min`: -Inf if either is, else NaN if either is."""
    return np.where((a == -np.inf) | (b == -np.inf), -np.inf, np.minimum(a, b))


def larger(a: Any, b: Any) -> Any:
    """As Go's `math.Max`: +Inf if either is, else NaN if either is."""
    return np.where((a == np.inf) | (b == np.inf), np.inf, np.maximum(a, b))


def _round(call: Call, context: Context) -> Vector:
    """To the nearest multiple, halves up. Dividing by the inverse is how Prometheus does it."""
    vector = context.vector(call.args[0])
    inverse = 1.0 / np.float64(context.scalar(call.args[1]) if len(call.args) > 1 else 1.0)
    rounded = np.floor(vector.values * inverse + 0.5) / inverse
    return context.nameless(vector.layout, rounded, vector.present)


def _clamp(call: Call, context: Context) -> Vector:
    vector = context.vector(call.args[0])
    low, high = context.scalar(call.args[1]), context.scalar(call.args[2])
    held = larger(smaller(vector.values, high), low)
    present = np.zeros_like(vector.present) if low > high else vector.present
    return context.nameless(vector.layout, held, present)


def _bounded(bound: Callable[[Any, Any], Any], call: Call, context: Context) -> Vector:
    vector = context.vector(call.args[0])
    held = bound(vector.values, context.scalar(call.args[1]))
    return context.nameless(vector.layout, held, vector.present)


def _dated(part: Callable[[IntArray], Any], call: Call, context: Context) -> Vector:
    """A part of the UTC date that each sample's value, or else the evaluation time, is."""
    if not call.args:
        return single(float(part(np.array([context.at // 1000]))[0]))
    vector = context.vector(call.args[0])
    datable = np.abs(vector.values) < DATABLE
    seconds = np.where(datable, vector.values, 0).astype(np.int64)
    values = np.where(datable, part(seconds), np.nan)
    return context.nameless(vector.layout, values, vector.present)


def _dates(seconds: IntArray, unit: str) -> Any:
    return (seconds // DAY).astype("datetime64[D]").astype(f"datetime64[{unit}]")


def _day_of_month(seconds: IntArray) -> Any:
    return seconds // DAY - _dates(seconds, "M").astype("datetime64[D]").astype(np.int64) + 1


def _day_of_year(seconds: IntArray) -> Any:
    return seconds // DAY - _dates(seconds, "Y").astype("datetime64[D]").astype(np.int64) + 1


def _days_in_month(seconds: IntArray) -> Any:
    month = _dates(seconds, "M")
    return ((month + 1).astype("datetime64[D]") - month.astype("datetime64[D]")).astype(np.int64)


_ELEMENTWISE: Final[dict[str, Elementwise]] = {
    "abs": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "deg": lambda values: values * 180 / np.pi,
    "exp": np.exp,
    "floor": np.floor,
    "ln": np.log,
    "log10": np.log10,
    "log2": np.log2,
    "rad": lambda values: values * np.pi / 180,
    "sgn": _sign,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
}

_DATES: Final[dict[str, Callable[[IntArray], Any]]] = {
    "day_of_month": _day_of_month,
    "day_of_week": lambda seconds: (seconds // DAY + EPOCH_WEEKDAY) % 7,
    "day_of_year": _day_of_year,
    "days_in_month": _days_in_month,
    "hour": lambda seconds: seconds % DAY // 3600,
    "minute": lambda seconds: seconds % 3600 // 60,
    "month": lambda seconds: _dates(seconds, "M").astype(np.int64) % 12 + 1,
    "year": lambda seconds: _dates(seconds, "Y").astype(np.int64) + 1970,
}

FUNCTIONS: Final[dict[str, VectorFunction]] = {
    **{name: partial(_mapped, change) for name, change in _ELEMENTWISE.items()},
    **{name: partial(_dated, part) for name, part in _DATES.items()},
    "clamp": _clamp,
    "clamp_max": partial(_bounded, smaller),
    "clamp_min": partial(_bounded, larger),
    "round": _round,
}
