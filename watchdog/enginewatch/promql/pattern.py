"""Patterns that merely list words: which words they list."""

from __future__ import annotations

import re
from typing import Final

MAX_WORDS: Final = 256
MAX_GROUPS: Final = 16
"""More words or groups than this, and a pattern does not count as a list."""

_PLAIN: Final = re.compile(r"[A-Za-z0-9_:\-/ ]|\\[^A-Za-z0-9]")
_OPEN: Final = re.compile(r"\((?:\?:)?")


def alternatives(pattern: str) -> frozenset[str] | None:
    """The words an RE2 pattern matches in full, if it is made of literals, `|`, `()` and `?` alone.

    >>> sorted(alternatives("up|scrape_(duration|samples)(_total)?"))[:3]
    ['scrape_duration', 'scrape_duration_total', 'scrape_samples']
    """
    if pattern.count("(") > MAX_GROUPS:
        return None
    try:
        words, end = _choice(pattern, 0)
    except _NotAListError:
        return None
    return frozenset(words) if end == len(pattern) else None


class _NotAListError(Exception):
    pass


def _choice(pattern: str, at: int) -> tuple[set[str], int]:
    words, at = _sequence(pattern, at)
    while at < len(pattern) and pattern[at] == "|":
        more, at = _sequence(pattern, at + 1)
        words |= more
    return words, at


def _sequence(pattern: str, at: int) -> tuple[set[str], int]:
    words = {""}
    while at < len(pattern) and pattern[at] not in "|)":
        part, at = _part(pattern, at)
        if at < len(pattern) and pattern[at] == "?":
            part, at = part | {""}, at + 1
        if len(words) * len(part) > MAX_WORDS or (at < len(pattern) and pattern[at] in "?*+{"):
            raise _NotAListError
        words = {head + tail for head in words for tail in part}
    return words, at


def _part(pattern: str, at: int) -> tuple[set[str], int]:
    if opened := _OPEN.match(pattern, at):
        words, at = _choice(pattern, opened.end())
        if at == len(pattern):
            raise _NotAListError
        return words, at + 1
    if plain := _PLAIN.match(pattern, at):
        return {plain.group()[-1]}, plain.end()
    raise _NotAListError
