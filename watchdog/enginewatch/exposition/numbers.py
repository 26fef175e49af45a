"""Sample values and timestamps as Prometheus reads them, and floats as it writes label values."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from enginewatch.exposition.errors import PageError, shown
from enginewatch.model import Millis
from enginewatch.units import format_float

FloatArray = NDArray[np.float64]

# What Go's strconv.ParseFloat takes, less the hexadecimal floats and underscores that
# Prometheus refuses (textparse.parseFloat). Python's float() takes more: blanks,
# underscores, digits of every script, a signed NaN.
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SPECIAL: Final = re.compile(r"[+-]?inf(?:inity)?|nan", re.IGNORECASE | re.ASCII)
_INTEGER: Final = re.compile(r"-?[0-9]{1,19}")
_LATEST: Final = 2**63 - 1
_PLAIN: Final = b"0123456789.eE+-"
_USUAL: Final = frozenset(("NaN", "Inf", "+Inf", "-Inf"))


def parse_value(text: str) -> float:
    """A sample's value. Raises PageError, also when a finite number does not fit a float."""
    if _DECIMAL.fullmatch(text):
        value = float(text)
        if math.isinf(value):
            raise PageError(f"{shown(text)} is out of the range of a 64-bit float")
        return value
    if _SPECIAL.fullmatch(text):
        return float(text)
    raise PageError(f"{shown(text)} is not a number", hint="a sample is `name{labels} value`")


def parse_millis(text: str) -> Millis:
    """The timestamp of the 0.0.4 format: integer milliseconds. Raises PageError."""
    if _INTEGER.fullmatch(text) and abs(at := int(text)) <= _LATEST:
        return at
    raise PageError(f"{shown(text)} is not a timestamp", hint="integer milliseconds are expected")


def parse_seconds(text: str) -> Millis:
    """The timestamp of OpenMetrics: seconds, with a fraction. Raises PageError."""
    if _DECIMAL.fullmatch(text) and abs(seconds := float(text)) <= _LATEST / 1000:
        return round(seconds * 1000)
    raise PageError(f"{shown(text)} is not a timestamp", hint="seconds are expected")


def openmetrics_float(value: float) -> str:
    """As Prometheus 3 rewrites `le` and `quantile`: `1.0`, `0.005`, `1e+06`, `+Inf`.

    Source: formatOpenMetricsFloat in model/textparse, on top of Go's %g: shortest
    digits, an exponent below 1e-4 and from 1e6 on (1e21 is %v's bound, not %g's).
    """
    if value == 0:
        return "0.0"
    text = format_float(value, "g")
    return f"{text}.0" if text.lstrip("-").isdigit() else text


def parse_values(texts: Sequence[str], joined: str) -> FloatArray | None:
    """`parse_value` of many texts at once; None where that is not certain to succeed.

    `joined` is all the texts in one, so that their alphabet is checked in one pass.
    """
    try:
        rest = joined.encode("ascii").translate(None, _PLAIN)
        values = np.fromiter(map(float, texts), np.float64, len(texts))
    except ValueError:
        return None
    infinite = np.count_nonzero(np.isinf(values))
    if not rest:
        return None if infinite else values
    special = [text for text in texts if text[-1] > "9"]
    if len(rest) != 3 * len(special) or not _USUAL.issuperset(special):
        return None
    return values if infinite == sum(text != "NaN" for text in special) else None
