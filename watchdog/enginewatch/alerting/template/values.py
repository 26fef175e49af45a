"""The values a template computes with, and Go's rules for them: types, truth, fields, order.

Go's `string`, `int`, `float64`, `bool` and `nil` are Python's own. A label map
is `Labels`, a queried sample is `Sample`, the answer of `query` is a list of
them, the map that `args` builds is a `dict`, and the root is `Data`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeAlias

from enginewatch.model import Labels, Sample

Result: TypeAlias = list[Sample]


@dataclass(frozen=True, slots=True)
class Data:
    """What `.` is at the start of a template."""

    labels: Labels
    external_labels: Labels
    external_url: str
    value: float

    def fields(self) -> dict[str, Value]:
        """By their names in a template, in the order Go prints them."""
        return {
            "Labels": self.labels,
            "ExternalLabels": self.external_labels,
            "ExternalURL": self.external_url,
            "Value": self.value,
        }


Value: TypeAlias = (
    "str | bool | int | float | Labels | Sample | Result | dict[str, Any] | Data | None"
)


class GoType(StrEnum):
    """Type names as Go prints them in messages."""

    STRING = "string"
    BOOL = "bool"
    INT = "int"
    FLOAT = "float64"
    LABELS = "map[string]string"
    SAMPLE = "*template.sample"
    RESULT = "template.queryResult"
    ARGS = "map[string]interface {}"
    DATA = (
        "struct { Labels map[string]string; ExternalLabels map[string]string; "
        "ExternalURL string; Value float64 }"
    )
    NIL = "<nil>"
    ANY = "interface {}"


class GoError(Exception):
    """Expansion can't go on; the text is what Go would say after the position."""


MAX_OUTPUT: Final = 1 << 20
"""Characters a template may produce, in all and in one `printf`. Go has no such limit; a label
used as a format could ask for any width."""

FIELDS: Final[Mapping[GoType, Mapping[str, GoType]]] = {
    GoType.DATA: {
        "Labels": GoType.LABELS,
        "ExternalLabels": GoType.LABELS,
        "ExternalURL": GoType.STRING,
        "Value": GoType.FLOAT,
    },
    GoType.SAMPLE: {"Labels": GoType.LABELS, "Value": GoType.FLOAT},
}


def type_of(value: Value) -> GoType:
    """The Go type of a value. `bool` before `int`: Python's True is an int."""
    kinds: tuple[tuple[type, GoType], ...] = (
        (str, GoType.STRING),
        (bool, GoType.BOOL),
        (int, GoType.INT),
        (float, GoType.FLOAT),
        (Labels, GoType.LABELS),
        (Sample, GoType.SAMPLE),
        (list, GoType.RESULT),
        (dict, GoType.ARGS),
        (Data, GoType.DATA),
    )
    return next((name for kind, name in kinds if isinstance(value, kind)), GoType.NIL)


def truth(value: Value) -> bool:
    """What `if` makes of a value: false for nil, zero and empty; NaN and every struct are true."""
    if isinstance(value, Sample | Data):
        return True
    return bool(value)


def field(value: Value, name: str) -> Value:
    """`value.name`. A label that isn't there is `""`, as Prometheus' `missingkey=zero` has it."""
    match value:
        case Labels():
            return value.get(name, "")
        case dict():
            found: Value = value.get(name)
            return found
        case Sample() if name in FIELDS[GoType.SAMPLE]:
            return value.labels if name == "Labels" else value.value
        case Data() if name in FIELDS[GoType.DATA]:
            return value.fields()[name]
        case None:
            return None
    raise GoError(f"can't evaluate field {name} in type {type_of(value)}")


_UNCOMPARABLE: Final = frozenset({GoType.LABELS, GoType.RESULT, GoType.ARGS, GoType.DATA})
_BASIC: Final = frozenset({GoType.STRING, GoType.BOOL, GoType.INT, GoType.FLOAT})


def equal(left: Value, right: Value) -> bool:
    """Go's `eq` for two values. An int and a float64 don't compare, here as there."""
    kinds = type_of(left), type_of(right)
    for kind in kinds:
        if kind in _UNCOMPARABLE:
            raise GoError(f"uncomparable type {kind}")
    if GoType.NIL in kinds:
        return left is right
    if kinds[0] is not kinds[1]:
        raise GoError("incompatible types for comparison")
    return left is right if isinstance(left, Sample) else left == right


def less(left: Value, right: Value) -> bool:
    """Go's `lt` for two values."""
    kinds = type_of(left), type_of(right)
    if not _BASIC.issuperset(kinds):
        raise GoError("invalid type for comparison")
    if kinds[0] is not kinds[1]:
        raise GoError("incompatible types for comparison")
    if isinstance(left, bool):
        raise GoError("invalid type for comparison")
    if isinstance(left, str) and isinstance(right, str):
        # Go orders strings by their bytes; UTF-8 keeps that the order of code points.
        return left < right
    assert isinstance(left, int | float)
    assert isinstance(right, int | float)
    return left < right


def items(value: Value) -> list[tuple[Value, Value]]:
    """What `range` goes over: (index or key, element), keys in order."""
    match value:
        case list():
            return list(enumerate(value))
        case Labels():
            return list(value.items())
        case dict():
            return [(key, value[key]) for key in sorted(value)]
        case None:
            return []
    raise GoError(f"range can't iterate over {type_of(value)}")


def encode(text: str) -> bytes:
    """The bytes Go would hold for `text`; lone surrogates, which Go can't hold, become `?`."""
    return text.encode("utf-8", "replace")


def go_int64(value: float) -> int:
    """`int64(value)` on amd64: truncated towards zero; what doesn't fit is the smallest int64."""
    if math.isfinite(value) and -(2.0**63) <= value < 2.0**63:
        return int(value)
    return -(2**63)
