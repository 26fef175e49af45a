"""A CUDA compute capability, which is what compiled code and engines are bound to."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_WRITTEN: Final = re.compile(r"(\d{1,2})\.(\d)")


class Capability(NamedTuple):
    """`str` gives it as `9.0`."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


def parse_capability(text: str) -> Capability | None:
    """Of `9.0`; None for what is none."""
    found = _WRITTEN.fullmatch(text.strip())
    return Capability(int(found[1]), int(found[2])) if found else None


def capability_of(text: str) -> Capability:
    """As `parse_capability`, of a table of ours. Raises ValueError for what is none."""
    found = parse_capability(text)
    if found is None:
        raise ValueError(f"{text!r} is no compute capability")
    return found
