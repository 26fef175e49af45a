"""Values read out of text: their types, and how a captured text becomes one.

Sizes, durations, versions and times stay as they were written, because an
operator searches the log for `58.81 MiB`, not for a number of bytes; expressions
turn them into numbers where they are compared.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Final

Value = str | int | float | bool | None | list["Value"]
"""What a field can hold; None says that it is not known."""

_SIZE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGTP]?)(?:i?B|ytes)?\s*", re.IGNORECASE)
_VERSION: Final = re.compile(r"\d[\w.+-]*", re.ASCII)
_MEBI: Final = {"": -2, "K": -1, "M": 0, "G": 1, "T": 2, "P": 3}
"""Powers of 1024 from each unit to MiB."""


def _integer(text: str) -> int:
    if text.isdecimal():
        return int(text)
    # A comma or a blank between digits is how people and some loggers group them.
    return int(text.replace(",", "").replace("_", ""), 0 if text.startswith("0x") else 10)


def _decimal(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text!r} is not a finite number")
    return number


def _size(text: str) -> str:
    if _SIZE.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a size")
    return text.strip()


def _version(text: str) -> str:
    if _VERSION.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a version")
    return text.rstrip(".,")


def _bool(text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false", "yes", "no", "1", "0"):
        raise ValueError(f"{text!r} is neither true nor false")
    return word in ("true", "yes", "1")


COUNT: Final = "count"
"""The type of a field whose value is how often its own pattern stands in the line."""

TYPES: Final[dict[str, Callable[[str], Value]]] = {
    "string": str.strip,
    "int": _integer,
    "float": _decimal,
    "bool": _bool,
    "bytes": _size,
    "duration": str.strip,
    "version": _version,
    "time": str.strip,
    COUNT: str.strip,
}
"""By the names that signature files use. Each raises ValueError for a text that is none."""


def mebibytes(value: Value) -> float | None:
    """`96.00 MiB` as 96.0; a plain number counts bytes. None for what is no size.

    A size given in MiB keeps its digits; others are rounded to a tenth.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    found = _SIZE.fullmatch(str(value))
    if found is None:
        return None
    number, unit = found.groups()
    power = _MEBI[unit.upper()]
    return (
        float(number) if power == 0 else round(float(Decimal(number) * Decimal(1024) ** power), 1)
    )


def size_in_bytes(value: Value) -> float | None:
    """A size as a number of bytes, to compare sizes by."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    found = _SIZE.fullmatch(str(value))
    if found is None:
        return None
    number, unit = found.groups()
    return float(Decimal(number) * 1024 ** (_MEBI[unit.upper()] + 2))
