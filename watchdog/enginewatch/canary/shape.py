"""What a text looks like, whatever it says: runs, loops, scripts, tokens that are no text.

Broken numerics show in the text itself. Judged in rules/diagnose/answers.yml and
rules/canary/decision.yml.
"""

from __future__ import annotations

import re
import zlib
from itertools import groupby
from typing import Final

_RESERVED: Final = re.compile(
    r"<\|?(?:reserved|unused|extra|placeholder|special)[_a-z]*[_-]?\d+\|?>|\[unused\d+\]|<unk>|<pad>"
)
_SCRIPTS: Final = (
    ("latin", ((0x41, 0x5A), (0x61, 0x7A), (0xC0, 0x24F))),
    ("greek", ((0x370, 0x3FF),)),
    ("cyrillic", ((0x400, 0x52F),)),
    ("armenian", ((0x530, 0x58F),)),
    ("hebrew", ((0x590, 0x5FF),)),
    ("arabic", ((0x600, 0x6FF), (0x750, 0x77F))),
    ("indic", ((0x900, 0xDFF),)),
    ("thai", ((0xE00, 0xEFF),)),
    ("georgian", ((0x10A0, 0x10FF),)),
    ("hangul", ((0x1100, 0x11FF), (0xAC00, 0xD7AF))),
    ("kana", ((0x3040, 0x30FF),)),
    ("han", ((0x3400, 0x4DBF), (0x4E00, 0x9FFF))),
)
"""Of Unicode's blocks, those that models are trained on; ranges are inclusive."""
_SAMPLED: Final = 4_000
_LEAST_TO_COMPRESS: Final = 100


def longest_run(text: str) -> tuple[str, int, int]:
    """The character repeated most in a row, how often, and where that begins; no blanks."""
    best, length, start = "", 0, 0
    at = 0
    for char, group in groupby(text):
        count = sum(1 for _ in group)
        if count > length and not char.isspace() and char != "\x00":
            best, length, start = char, count, at
        at += count
    return best, length, start


def reserved(text: str) -> int:
    """How many tokens that no text has, such as `<unk>`, are written out in it."""
    return len(_RESERVED.findall(text))


def scripts(text: str) -> frozenset[str]:
    """The writing systems in a text."""
    points = {ord(char) for char in text[:_SAMPLED] if char.isalpha()}
    return frozenset(
        name
        for name, ranges in _SCRIPTS
        if any(low <= point <= high for point in points for low, high in ranges)
    )


def compressed(text: str) -> float:
    """Compressed size per byte; 1 where there is too little to say. Loops of any length show."""
    raw = text.encode("utf-8", "replace")
    return len(zlib.compress(raw)) / len(raw) if len(raw) >= _LEAST_TO_COMPRESS else 1.0


def distinct_words(text: str) -> float:
    """Distinct words per word; 1 where there are too few to say."""
    words = text.split()
    return len(set(words)) / len(words) if len(words) >= 50 else 1.0
