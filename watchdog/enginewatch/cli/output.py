"""What commands share: exit codes and plain words."""

from __future__ import annotations

from typing import Final

FOUND: Final = 1
"""The command worked, and found something wrong with what it looked at."""

WRONG_USE: Final = 2
"""Wrong use or configuration."""


def plural(count: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
