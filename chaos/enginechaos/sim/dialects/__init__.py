"""What an engine says of itself: metrics page, health paths, log lines, process titles.

One file an engine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from enginechaos.sim.dialects.base import Dialect
from enginechaos.sim.dialects.nim import Nim
from enginechaos.sim.dialects.sglang import Sglang
from enginechaos.sim.dialects.triton import Triton
from enginechaos.sim.dialects.trtllm import Trtllm
from enginechaos.sim.dialects.vllm import Vllm
from enginechaos.sim.dialects.vllm_old import VllmOld
from enginechaos.sim.settings import DialectName, Settings

_KNOWN: Final[dict[DialectName, Callable[[Settings], Dialect]]] = {
    "vllm": Vllm,
    "vllm-old": VllmOld,
    "trtllm": Trtllm,
    "triton": Triton,
    "sglang": Sglang,
    "nim": Nim,
}


def find(settings: Settings) -> Dialect:
    return _KNOWN[settings.dialect](settings)
