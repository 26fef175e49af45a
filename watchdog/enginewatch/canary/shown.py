"""Answers as people are shown them: short, on one line, and without power over a terminal."""

from __future__ import annotations

from typing import Final

_LONGEST: Final = 160


def shown(text: str, longest: int = _LONGEST) -> str:
    """The text in one line: control characters, bidirectional marks and what can't be printed
    are escaped, a long text is cut in the middle."""
    cut = text
    if len(text) > 4 * longest:
        cut = text[: 2 * longest] + text[-2 * longest :]
    line = "".join(each if each.isprintable() else _escaped(each) for each in cut)
    if len(line) > longest or len(cut) < len(text):
        half = longest // 2
        line = f"{line[:half]} [{len(text)} characters] {line[-half:]}"
    return line or "(nothing)"


def _escaped(char: str) -> str:
    return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(char, f"\\u{{{ord(char):x}}}")
