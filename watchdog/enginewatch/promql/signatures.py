"""Which functions and aggregations exist, what they take and return, and which are refused and why.

The parser checks calls against these tables and the evaluator implements them,
so a name is spelled once. Names, argument types and what counts as experimental
follow Prometheus 3 (`promql/parser/functions.go`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from enginewatch.promql.ast import ValueType

SCALAR: Final = ValueType.SCALAR
VECTOR: Final = ValueType.VECTOR
MATRIX: Final = ValueType.MATRIX
STRING: Final = ValueType.STRING

EXPERIMENTAL: Final = "it is experimental in Prometheus 3, off unless a server enables it"
NATIVE: Final = "it needs native histograms, which the text exposition format cannot carry"
CLASSIC_FRACTION: Final = "it takes classic buckets only from Prometheus 3.4 on"


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function takes and returns.

    `args` are the types by position. `least` arguments must be given and `most`
    may be (None: any number, all further ones of the last type). `gate` says
    why rule files may not use the function; empty for those they may use.
    """

    name: str
    args: tuple[ValueType, ...]
    returns: ValueType
    least: int
    most: int | None
    gate: str = ""

    def arg_type(self, index: int) -> ValueType:
        """The type wanted of the argument at `index`, counted from 0."""
        return self.args[min(index, len(self.args) - 1)]


@dataclass(frozen=True, slots=True)
class AggregateSignature:
    """An aggregation: the type of its leading parameter, or None where it takes none."""

    name: str
    param: ValueType | None = None
    gate: str = ""


def _call(
    *args: ValueType,
    returns: ValueType = VECTOR,
    optional: int = 0,
    repeats: bool = False,
    gate: str = "",
) -> Callable[[str], Signature]:
    """A signature still without its name.

    The last `optional` arguments may be left out; with `repeats` the last one may
    be given any number of times, or not at all.
    """
    least = len(args) - optional - repeats
    most = None if repeats else len(args)
    return lambda name: Signature(name, args, returns, least, most, gate)


_OF_VECTOR: Final = (
    "abs", "absent", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh",
    "deg", "exp", "floor", "ln", "log10", "log2", "rad", "sgn", "sin", "sinh", "sort",
    "sort_desc", "sqrt", "tan", "tanh", "timestamp",
)  # fmt: skip
_OF_RANGE: Final = (
    "absent_over_time", "avg_over_time", "changes", "count_over_time", "delta", "deriv", "idelta",
    "increase", "irate", "last_over_time", "max_over_time", "min_over_time", "present_over_time",
    "rate", "resets", "stddev_over_time", "stdvar_over_time", "sum_over_time",
)  # fmt: skip
_OF_DATES: Final = (
    "day_of_month", "day_of_week", "day_of_year", "days_in_month", "hour", "minute", "month",
    "year",
)  # fmt: skip
_OF_RANGE_GATED: Final = (
    "first_over_time", "mad_over_time", "ts_of_first_over_time", "ts_of_last_over_time",
    "ts_of_max_over_time", "ts_of_min_over_time",
)  # fmt: skip
_OF_QUERY_GATED: Final = ("end", "range", "start", "step")

_TABLE: Final[Mapping[str, Callable[[str], Signature]]] = {
    **dict.fromkeys(_OF_VECTOR, _call(VECTOR)),
    **dict.fromkeys(_OF_RANGE, _call(MATRIX)),
    **dict.fromkeys(_OF_DATES, _call(VECTOR, optional=1)),
    "clamp": _call(VECTOR, SCALAR, SCALAR),
    "clamp_max": _call(VECTOR, SCALAR),
    "clamp_min": _call(VECTOR, SCALAR),
    "histogram_quantile": _call(SCALAR, VECTOR),
    "label_join": _call(VECTOR, STRING, STRING, STRING, repeats=True),
    "label_replace": _call(VECTOR, STRING, STRING, STRING, STRING),
    "pi": _call(returns=SCALAR),
    "predict_linear": _call(MATRIX, SCALAR),
    "quantile_over_time": _call(SCALAR, MATRIX),
    "round": _call(VECTOR, SCALAR, optional=1),
    "scalar": _call(VECTOR, returns=SCALAR),
    "time": _call(returns=SCALAR),
    "vector": _call(SCALAR),
    # Gated: conformance runs switch these on, and rule files may not use them.
    **dict.fromkeys(_OF_RANGE_GATED, _call(MATRIX, gate=EXPERIMENTAL)),
    **dict.fromkeys(_OF_QUERY_GATED, _call(returns=SCALAR, gate=EXPERIMENTAL)),
    "double_exponential_smoothing": _call(MATRIX, SCALAR, SCALAR, gate=EXPERIMENTAL),
    "histogram_fraction": _call(SCALAR, SCALAR, VECTOR, gate=CLASSIC_FRACTION),
    "histogram_quantiles": _call(VECTOR, STRING, SCALAR, SCALAR, repeats=True, gate=EXPERIMENTAL),
    "max_of": _call(SCALAR, SCALAR, returns=SCALAR, gate=EXPERIMENTAL),
    "min_of": _call(SCALAR, SCALAR, returns=SCALAR, gate=EXPERIMENTAL),
    "sort_by_label": _call(VECTOR, STRING, repeats=True, gate=EXPERIMENTAL),
    "sort_by_label_desc": _call(VECTOR, STRING, repeats=True, gate=EXPERIMENTAL),
}

FUNCTIONS: Final[Mapping[str, Signature]] = MappingProxyType(
    {name: make(name) for name, make in _TABLE.items()}
)

AGGREGATES: Final[Mapping[str, AggregateSignature]] = MappingProxyType(
    {
        signature.name: signature
        for signature in (
            *map(
                AggregateSignature,
                ("avg", "count", "group", "max", "min", "stddev", "stdvar", "sum"),
            ),
            AggregateSignature("bottomk", SCALAR),
            AggregateSignature("count_values", STRING),
            AggregateSignature("limit_ratio", SCALAR, EXPERIMENTAL),
            AggregateSignature("limitk", SCALAR, EXPERIMENTAL),
            AggregateSignature("quantile", SCALAR),
            AggregateSignature("topk", SCALAR),
        )
    }
)

REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "histogram_avg": NATIVE,
        "histogram_count": NATIVE,
        "histogram_stddev": NATIVE,
        "histogram_stdvar": NATIVE,
        "histogram_sum": NATIVE,
        "holt_winters": "Prometheus 3 renamed it double_exponential_smoothing, an experimental one",
        "info": EXPERIMENTAL,
        "integral": EXPERIMENTAL,
    }
)
"""Functions that Prometheus has or had and that are not supported here at all, with the reason."""
