"""Text in pieces that stand for tokens: a word with the blank before it, a group of digits, a sign.

About as many as a real tokenizer makes of English; joined they are the text again.
"""

from __future__ import annotations

import re
import zlib
from typing import Final

_PIECE: Final = re.compile(r" ?[^\W\d_]{1,12}|\d{1,3}|\s+|.", re.DOTALL)


def pieces(text: str) -> list[str]:
    return _PIECE.findall(text)


def token_ids(text: str) -> tuple[int, ...]:
    """One stable number for each piece."""
    return tuple(zlib.crc32(piece.encode()) % 100_000 for piece in pieces(text))
