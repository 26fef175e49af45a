"""One file a launcher: what its words, its configuration file and its JSON mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from enginewatch.preflight.readers.launchers import (
    sglang,
    triton,
    trtllm_build,
    trtllm_serve,
    vllm,
)
from enginewatch.preflight.readers.launchers.base import Read, Words

READERS: Final[Mapping[str, Callable[[Words], Read]]] = {
    "vllm": vllm.read,
    "trtllm_serve": trtllm_serve.read,
    "trtllm_build": trtllm_build.read,
    "triton": triton.read,
    "sglang": sglang.read,
}
"""By the name in `rules/compat/launchers.yml`."""
