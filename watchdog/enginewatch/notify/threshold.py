"""An alert's value beside what it is compared with, in the unit that its rule gives.

The annotation `threshold` is a comparison as it stands in the rule's expression, for people:
`>= 15 s`, `> 50 %`, `< 3`. The unit holds for the value, too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from enginewatch.model import Alert

ANNOTATION: Final = "threshold"

_FORM: Final = re.compile(r"(>=|<=|==|!=|>|<) (-?[0-9]+(?:\.[0-9]+)?)(?: (\S.*))?")
_SCALES: Final[Mapping[str, float]] = MappingProxyType({"%": 100.0, "ms": 1_000.0})
"""Units that are not the expression's own, and how many of them make one of it."""


class Threshold(NamedTuple):
    """`number` is the expression's: 0.5 where people read 50 %."""

    op: str
    number: float
    unit: str


def parse_threshold(text: str) -> Threshold | None:
    """What an annotation says, or None where it says it in its own words."""
    found = _FORM.fullmatch(text.strip())
    if found is None:
        return None
    op, number, unit = found.groups(default="")
    return Threshold(op, float(number) / _SCALES.get(unit, 1.0), unit)


def value_of(alert: Alert) -> str:
    """The value, and against what: `20 s (threshold >= 15 s)`; nothing where there is no value.

    A rule that says the value in its own words, in the annotation `value`, is believed.
    """
    said, threshold = (alert.annotations.get(key, "") for key in ("value", ANNOTATION))
    if not said and not math.isfinite(alert.value):
        return ""
    against = f" (threshold {threshold})" if threshold else ""
    return (said or _with_unit(alert.value, parse_threshold(threshold))) + against


def _with_unit(value: float, threshold: Threshold | None) -> str:
    if threshold is None or not threshold.unit:
        return f"{value:.6g}"
    return f"{value * _SCALES.get(threshold.unit, 1.0):.6g} {threshold.unit}"
