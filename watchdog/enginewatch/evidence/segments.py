"""Takes an input apart: log lines, metrics pages, JSON documents and HTTP exchanges, in any mix.

```
# SCRAPE t=120                 a page as served, with its time; several make a series
# GET /metrics                 what a client asked; its answer follows
{"choices": …}                 a document, on one line or over many
anything else                  a log line
```
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from enginewatch.evidence.lines import unwrapped
from enginewatch.model import EMPTY_LABELS, Labels, Millis
from enginewatch.recording.events import parse_attributes
from enginewatch.units import parse_time

_MOST_JSON: Final = 4 << 20
"""Bytes of a document that is spread over lines. Longer, it is not a configuration."""
_MOST_PAGE: Final = 32 << 20

_DIRECTIVE: Final = re.compile(rb"# (SCRAPE|TARGET|NOTE|enginewatch recording)\b(.*)")
_ASKED: Final = re.compile(
    rb"(?:# ?(?:GET|POST|HEAD|PUT)|> (?:GET|POST|HEAD|PUT)|\$ curl\b.*https?:)"
    rb"[^\n/]*(?://[^/\s\"']+)?(?P<path>/[^\s\"'?]*)"
    rb"[^\n]*?(?:(?:->|=>|HTTP/[\d.]+\"?) *(?P<status>\d{3})\b|$)"
)
_ANSWERED: Final = re.compile(rb"(?:< )?HTTP/[\d.]+ (\d{3})\b")
_COMMENT: Final = re.compile(rb"# (?:TYPE|HELP|UNIT) [a-zA-Z_:]")
_SAMPLE: Final = re.compile(
    rb"[a-zA-Z_:][a-zA-Z0-9_:]*(?:\{[^\n]*\})?[ \t]+"
    rb"[-+]?(?:[0-9][0-9.eE+-]*|\.[0-9]+|Inf|NaN|inf|nan)"
    rb"(?:[ \t]+-?[0-9.]+)?(?: # \{[^\n]*)?\s*$"
)
_LABELLED: Final = re.compile(rb"[a-zA-Z_:][a-zA-Z0-9_:]*\{")
_ANSI: Final = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")
_ANSWER: Final = b'"choices"'
"""In every answer of an OpenAI-compatible server: clients log them behind words of their own."""
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"')
_TARGET_LABELS: Final = ("instance", "job", "deployment")


@dataclass(frozen=True, slots=True)
class LogLine:
    number: int
    raw: bytes


@dataclass(frozen=True, slots=True)
class PageText:
    """A metrics page. `at` is None where the input gives it no time; `error` why there is none."""

    number: int
    lines: tuple[bytes, ...]
    at: Millis | None = None
    labels: Labels = EMPTY_LABELS
    error: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON value; `path` is what was asked for where it answers a request."""

    number: int
    value: Any
    text: str
    path: str = ""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and the status of its answer."""

    number: int
    path: str
    status: int


Segment = LogLine | PageText | Document | Exchange


class Segmenter:
    """Fed line by line; gives segments as they are complete, and the rest at `finish`."""

    def __init__(self) -> None:
        self._number = 0
        self._asked = ""
        self._page = _OpenPage()
        self._json = _OpenJson()

    def split(self, lines: Iterable[bytes]) -> Iterator[Segment]:
        for line in lines:
            yield from self.feed(line)
        yield from self.finish()

    def feed(self, raw: bytes) -> Iterator[Segment]:
        self._number += 1
        if b"\x1b" in raw:
            raw = _ANSI.sub(b"", raw)
        if self._json.is_open:
            yield from self._json.add(raw, self._asked)
        elif raw[:1] in b"#>$" and raw:
            yield from self._marked(self._number, raw)
        else:
            yield from self._plain(self._number, raw)

    def finish(self) -> Iterator[Segment]:
        yield from self._json.give_up()
        yield from self._page.close()

    def _marked(self, number: int, raw: bytes) -> Iterator[Segment]:
        """A directive, a request, or a comment of a page."""
        directive = _DIRECTIVE.match(raw)
        if directive is not None:
            yield from self._page.close()
            self._asked = ""
            if directive[1] == b"SCRAPE":
                yield from self._page.open_scrape(number, directive[2])
            return
        asked = _ASKED.match(raw)
        if asked is not None:
            yield from self._page.close()
            self._asked = asked["path"].decode("utf-8", "replace")
            if asked["status"]:
                yield Exchange(number, self._asked, int(asked["status"]))
            return
        if not self._page.is_open and _COMMENT.match(raw):
            self._page.open(number)
        yield from self._plain(number, raw)

    def _plain(self, number: int, raw: bytes) -> Iterator[Segment]:
        if not self._page.is_open and self._begins_page(raw):
            self._page.open(number)
        if self._page.is_open:
            if self._page.add(raw):
                return
            yield from self._page.close()
        if raw[:1] in (b"{", b"[") or raw[:7] == b"data: {":
            yield from self._json_line(number, raw)
            return
        if _ANSWER in raw and (parsed := _parsed(raw[raw.find(b"{") :].rstrip())):
            yield Document(number, parsed[0], raw.decode("utf-8", "replace"), self._asked)
            return
        answered = _ANSWERED.match(raw) if self._asked else None
        if answered is not None:
            yield Exchange(number, self._asked, int(answered[1]))
        else:
            yield LogLine(number, raw)

    def _begins_page(self, raw: bytes) -> bool:
        """A sample that nothing announced: with labels, or where metrics were asked for."""
        likely = _LABELLED.match(raw) or self._asked.endswith("metrics")
        return bool(likely and _SAMPLE.match(raw))

    def _json_line(self, number: int, raw: bytes) -> Iterator[Segment]:
        text = raw.strip().removeprefix(b"data: ")
        parsed = _parsed(text)
        inner = unwrapped(parsed[0]) if parsed else None
        if inner is not None and inner[:1] in ("{", "["):
            # A document that a container runtime boxed.
            yield from self._json_line(number, inner.encode("utf-8", "replace"))
        elif inner is not None:
            yield LogLine(number, raw)
        elif parsed is not None:
            yield Document(number, parsed[0], text.decode("utf-8", "replace"), self._asked)
        elif _depth(text) > 0 and text[-1:] in b"{[,":
            # A bracket that stays open at the line's end: a document over lines.
            self._json.open(number, raw)
        else:
            yield LogLine(number, raw)


class _OpenPage:
    """The page that is being read, if one is."""

    def __init__(self) -> None:
        self.is_open = False
        self._lines: list[bytes] = []
        self._size = 0
        self._head = PageText(0, ())

    def open(self, number: int, at: Millis | None = None, labels: Labels = EMPTY_LABELS) -> None:
        self.is_open = True
        self._lines, self._size = [], 0
        self._head = PageText(number, (), at, labels)

    def open_scrape(self, number: int, attributes: bytes) -> Iterator[Segment]:
        try:
            given = parse_attributes(attributes.decode("utf-8", "replace"))
            at = parse_time(given["t"]) if "t" in given else None
        except ValueError:
            given, at = {}, None
        labels = Labels((name, given[name]) for name in _TARGET_LABELS if name in given)
        if given.get("error"):
            yield PageText(number, (), at, labels, given["error"])
        else:
            self.open(number, at, labels)

    def add(self, raw: bytes) -> bool:
        """Whether the line belongs to the page."""
        text = raw.strip()
        if text and text[:1] != b"#" and _SAMPLE.match(text) is None:
            return False
        self._lines.append(raw)
        self._size += len(raw)
        return self._size < _MOST_PAGE

    def close(self) -> Iterator[Segment]:
        if self.is_open:
            self.is_open = False
            head = self._head
            yield PageText(head.number, tuple(self._lines), head.at, head.labels)


class _OpenJson:
    """The document over lines that is being read, if one is."""

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self._start = 0
        self._size = 0
        self._open_brackets = 0

    @property
    def is_open(self) -> bool:
        return bool(self._lines)

    def open(self, number: int, raw: bytes) -> None:
        self._lines, self._start, self._size = [raw], number, len(raw)
        self._open_brackets = _depth(raw)

    def add(self, raw: bytes, path: str) -> Iterator[Segment]:
        self._lines.append(raw)
        self._size += len(raw)
        self._open_brackets += _depth(raw)
        if self._open_brackets > 0 and self._size <= _MOST_JSON:
            return
        text = b"\n".join(self._lines)
        parsed = _parsed(text)
        if parsed is None:
            yield from self.give_up()
            return
        self._lines = []
        yield Document(self._start, parsed[0], text.decode("utf-8", "replace"), path)

    def give_up(self) -> Iterator[Segment]:
        """It only began like a document: its lines are log lines."""
        lines, self._lines = self._lines, []
        for number, raw in enumerate(lines, self._start):
            yield LogLine(number, raw)


def _parsed(text: bytes) -> tuple[Any] | None:
    try:
        return (json.loads(text),)
    except (ValueError, RecursionError):
        return None


def _depth(text: bytes) -> int:
    """How many brackets the text leaves open, those in strings aside."""
    bare = _STRING.sub(b"", text)
    return bare.count(b"{") + bare.count(b"[") - bare.count(b"}") - bare.count(b"]")
