"""RE2 over the bytes of a line: linear time on hostile input, whatever its encoding.

Patterns are compiled byte by byte (RE2's Latin-1), so that a broken character in
a line hides nothing on either side of it. Letters beyond ASCII match as the bytes
of their UTF-8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import re2

_SET_MEMORY: Final = 256 << 20
"""What RE2 may use for a set's states. It takes some 20 MB; out of memory it would find nothing."""


class Pattern:
    """A compiled pattern. `names` are its named groups in order, `groups` counts all."""

    __slots__ = ("_compiled", "_places", "groups", "names", "text")

    def __init__(self, text: str):
        """Raises ValueError with RE2's own reason."""
        self.text: Final = text
        try:
            self._compiled: Final[Any] = re2.compile(text.encode(), _options())
        except re2.error as failure:
            reason = failure.args[0] if failure.args else failure
            if isinstance(reason, bytes):
                reason = reason.decode("utf-8", "replace")
            raise ValueError(f"not a valid RE2 pattern: {reason}") from None
        index: dict[bytes, int] = self._compiled.groupindex
        places = sorted((place, name.decode()) for name, place in index.items())
        self.names: Final = tuple(name for _, name in places)
        self._places: Final = tuple((name, place - 1) for place, name in places)
        self.groups: Final[int] = self._compiled.groups

    def search(self, line: bytes) -> dict[str, str] | None:
        """The texts of the named groups that took part, or None where nothing is found."""
        found = self._compiled.search(line)
        if found is None:
            return None
        if not self._places:
            return {}
        texts: Sequence[bytes | None] = found.groups()
        return {
            name: text.decode("utf-8", "replace")
            for name, place in self._places
            if (text := texts[place]) is not None
        }

    def first_group(self, line: bytes) -> str | None:
        found = self._compiled.search(line)
        text: bytes | None = None if found is None else found.group(1)
        return None if text is None else text.decode("utf-8", "replace")

    def count(self, line: bytes) -> int:
        return sum(1 for _ in self._compiled.finditer(line))


def compile_set(patterns: Sequence[Pattern]) -> Callable[[bytes], Sequence[int] | None]:
    """A function that tells in one pass which of the patterns are in a line, by their places."""
    if not patterns:
        return lambda _line: None
    options = _options()
    options.max_mem = _SET_MEMORY
    automaton = re2.Set.SearchSet(options)
    for pattern in patterns:
        automaton.Add(pattern.text.encode())
    automaton.Compile()
    match: Callable[[bytes], Sequence[int] | None] = automaton.Match
    return match


def _options() -> Any:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    return options
