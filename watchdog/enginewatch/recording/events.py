"""What a recording holds, and the words it is written in."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from enginewatch.errors import EnginewatchError
from enginewatch.model import Labels, Millis

HEADER: Final = b"# enginewatch recording "
VERSION: Final = 1

_ATTRIBUTE: Final = re.compile(
    r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)=("[^"\\]*(?:\\.[^"\\]*)*"|[^\s"]+)(?=[ \t]|$)'
)
_ESCAPE: Final = re.compile(r"\\(.)")


class RecordingError(EnginewatchError):
    """A recording that can't be read or written; `where` is `file:line`."""


@dataclass(frozen=True, slots=True)
class ScrapeEvent:
    """What one scrape of one target brought.

    `duration` is in seconds. `body` is None when there was no page: then `error`
    says why, and `reason` in a word (`model.ScrapeFailure`). `status` is 0 when there
    was no answer, or none was recorded.
    """

    labels: Labels
    at: Millis
    body: bytes | None
    duration: float = 0.0
    status: int = 0
    content_type: str = ""
    error: str = ""
    reason: str = ""

    @property
    def page(self) -> str | None:
        """The page as text; bytes that are not UTF-8 become surrogates, so none is lost."""
        return None if self.body is None else self.body.decode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class NoteEvent:
    """Something that the person or program recording wanted to remember."""

    at: Millis
    text: str


@dataclass(frozen=True, slots=True)
class SamplesEvent:
    """What something other than a scrape had to say of a target at one time: a page of samples
    without the target's labels. `source` tells what it was, `probe` for one."""

    labels: Labels
    at: Millis
    source: str
    body: bytes


Event = ScrapeEvent | SamplesEvent | NoteEvent


def format_attributes(attributes: Iterable[tuple[str, str]]) -> str:
    return " ".join(f"{name}={value}" for name, value in attributes)


def parse_attributes(text: str) -> dict[str, str]:
    """`a=1 b="x y"` as a mapping. Raises ValueError."""
    found: dict[str, str] = {}
    at = 0
    text = text.rstrip()
    while at < len(text):
        one = _ATTRIBUTE.match(text, at)
        if one is None:
            raise ValueError(f'{text[at:].strip()!r} is not name=value or name="value"')
        name, value = one.groups()
        if value.startswith('"'):
            value = _ESCAPE.sub(lambda m: "\n" if m[1] == "n" else m[1], value[1:-1])
        found[name] = value
        at = one.end()
    return found
