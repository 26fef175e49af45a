"""What expressions of signature files can call: plain functions, and questions to the incident."""

from __future__ import annotations

import re
import signal as signals
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from enginewatch.evidence.fields import Value, mebibytes, size_in_bytes

_ARCHITECTURE: Final = re.compile(r"(?:sm|compute)_(\d+?)(\d)[af]?", re.ASCII)


def capability(value: Value) -> Value:
    """`sm_90a` as `9.0`, `sm_120` as `12.0`."""
    found = _ARCHITECTURE.fullmatch(str(value).strip())
    return f"{found[1]}.{found[2]}" if found else None


def highest(value: Value) -> Value:
    """The last architecture of a list like `sm_80 sm_90`, by number."""
    known = _ARCHITECTURE.finditer(str(value))
    best = max(known, key=lambda m: int(m[1] + m[2]), default=None)
    return best[0] if best else None


def signal_name(code: Value) -> Value:
    """The signal behind an exit code: -9 and 137 are both `SIGKILL`."""
    if not isinstance(code, int) or isinstance(code, bool):
        return None
    number = -code if code < 0 else code - 128
    try:
        return signals.Signals(number).name
    except ValueError:
        return None


def first_known(*values: Value) -> Value:
    return next((value for value in values if value is not None), None)


def _round(value: Value, digits: Value = 0) -> Value:
    if not isinstance(value, int | float) or not isinstance(digits, int):
        return None
    return round(float(value), digits) if digits else round(float(value))


PURE: Final[Mapping[str, Callable[..., Value]]] = {
    "mib": mebibytes,
    "bytes": size_in_bytes,
    "capability": capability,
    "highest": highest,
    "signal_name": signal_name,
    "first_known": first_known,
    "known": lambda value: value is not None,
    "round": _round,
    "int": lambda value: int(value) if isinstance(value, str | int | float) else None,
    "text": lambda value: None if value is None else str(value),
    "min": min,
    "max": max,
    "len": lambda value: len(value) if isinstance(value, str | list) else None,
    "sorted": lambda values: sorted(values) if isinstance(values, list) else None,
    "startswith": lambda text, start: str(text).startswith(str(start)),
}


class Incident(Protocol):
    """What expressions can ask of everything that was seen, once it has all been seen."""

    def count(self, *signatures: str) -> int: ...
    def seen(self, *signatures: str) -> bool: ...
    def values(self, field: str) -> list[Value]: ...
    def other(self, value: Value, field: str) -> Value: ...
    def least(self, wanted: str, by: str) -> Value: ...
    def unheard(self, field: str, introduced: str) -> Value: ...
    def distinct(self, *fields: str) -> int: ...
    def first(self, field: str) -> Value: ...
    def last(self, field: str) -> Value: ...
    def span(self) -> Value: ...
    def incidents(self) -> int: ...
    def explained(self) -> list[str]: ...


_QUESTIONS: Final = (
    "count",
    "seen",
    "values",
    "other",
    "least",
    "unheard",
    "distinct",
    "first",
    "last",
    "span",
    "incidents",
    "explained",
)

FUNCTIONS: Final = frozenset({*PURE, *_QUESTIONS, "joined"})
"""Every name that an expression may call."""


def functions_of(incident: Incident) -> dict[str, Callable[..., Value]]:
    """All functions, with the questions answered by `incident`."""
    asked: dict[str, Callable[..., Value]] = {name: getattr(incident, name) for name in _QUESTIONS}
    return {**PURE, **asked, "joined": _joined}


def _joined(values: Value, separator: Value) -> Value:
    """A list as one text; unknown where it is empty."""
    if not isinstance(values, list) or not values:
        return None
    return str(separator).join(str(each) for each in values)
