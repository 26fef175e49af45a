"""What can be wrong with tasks, baselines and results of evaluations."""

from __future__ import annotations

from enginewatch.errors import EnginewatchError


class CanaryError(EnginewatchError):
    """A file of tasks, a baseline or an evaluation that can't be read, or doesn't fit."""
