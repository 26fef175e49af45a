"""What preflight refuses: inputs that aren't there, options that say nothing it knows."""

from __future__ import annotations

from enginewatch.errors import EnginewatchError


class PreflightError(EnginewatchError):
    """Wrong use: a path that does not exist, a declaration that can't be read."""
