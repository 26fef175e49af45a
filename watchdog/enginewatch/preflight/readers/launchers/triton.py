"""`tritonserver --model-repository …` and `launch_triton_server.py --model_repo …`."""

from __future__ import annotations

from typing import Final

from enginewatch.preflight.readers.flags import Style
from enginewatch.preflight.readers.launchers.base import Read, Words, read_flags, stray

_STYLE: Final = Style(abbreviates=False)


def read(words: Words) -> Read:
    found, parsed = read_flags(words, _STYLE)
    stray(found, parsed.positional, words.script)
    return found
