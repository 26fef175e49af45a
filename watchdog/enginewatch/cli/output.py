"""What commands share: their exit codes."""

from __future__ import annotations

from typing import Final

FOUND: Final = 1
"""The command worked, and found something wrong with what it looked at."""

WRONG_USE: Final = 2
"""Wrong use or configuration."""
