"""What an engine says of itself: metrics page, health paths, log lines, process titles. One file an
engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from enginechaos.sim.dialects.base import Dialect
from enginechaos.sim.dialects.vllm import Vllm
from enginechaos.sim.settings import Settings

_KNOWN: Final[dict[str, Callable[[Settings], Dialect]]] = {"vllm": Vllm}


def find(settings: Settings) -> Dialect:
    return _KNOWN[settings.dialect](settings)
