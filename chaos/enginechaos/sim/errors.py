"""Everything the simulated engine says no with, before it serves."""

from __future__ import annotations

from enginechaos.errors import ChaosError


class SimError(ChaosError):
    """A setting, an engine directory or a GPU file that the sim can't start with."""
