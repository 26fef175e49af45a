"""A verdict as a person reads it at three in the morning: what, how sure, what to do, why."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Final

from enginewatch.evidence.fields import Value
from enginewatch.evidence.verdict import Verdict

WIDTH: Final = 100
_LONGEST_LINE: Final = 240


def render(verdict: Verdict) -> str:
    """Plain text, a line each for what a page would say, then the evidence."""
    return "\n".join(_lines(verdict))


def _lines(verdict: Verdict) -> Iterator[str]:
    yield f"{verdict.verdict}  ({verdict.severity}, {verdict.confidence})"
    yield from _wrapped(f"{verdict.summary[:1].upper()}{verdict.summary[1:]}.", "")
    if verdict.advice:
        yield ""
        yield from _wrapped(verdict.advice, "Next: ")
    fields = {k: v for k, v in {**verdict.fields, **verdict.derived}.items() if v is not None}
    if fields:
        yield ""
        width = max(len(name) for name in fields)
        for name, value in fields.items():
            yield f"  {name.ljust(width)}  {_written(value)}"
    if verdict.evidence:
        yield ""
        yield "Evidence:"
        for each in verdict.evidence:
            place = f"{each.source}:{each.line}" if each.line else each.source
            yield f"  {place}: {_shown(each.text)}"
    if verdict.excluded:
        yield ""
        yield "It is not:"
        by_reason: dict[str, list[str]] = {}
        for other in verdict.excluded:
            by_reason.setdefault(other.reason, []).append(other.verdict)
        for reason, names in by_reason.items():
            yield from _wrapped(f"{', '.join(names)}: {reason}", "  ")
    if verdict.notes:
        yield ""
        for note in verdict.notes:
            yield from _wrapped(note, "note: ")


def _wrapped(text: str, start: str) -> list[str]:
    indent = " " * len(start)
    return textwrap.wrap(text, WIDTH, initial_indent=start, subsequent_indent=indent)


def _written(value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_written, value))
    return _shown(str(value))


def _shown(text: str) -> str:
    """On one line, with nothing in it that a terminal would act on."""
    line = "".join(char if char.isprintable() else " " for char in text)
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…"
