"""`trtllm-build --checkpoint_dir … --output_dir …`, of TensorRT-LLM 1.2 and older."""

from __future__ import annotations

from typing import Final

from enginewatch.preflight.readers.flags import Style
from enginewatch.preflight.readers.launchers.base import Read, Words, read_flags, stray

_STYLE: Final = Style()


def read(words: Words) -> Read:
    found, parsed = read_flags(words, _STYLE)
    stray(found, parsed.positional, words.script)
    return found
