"""Metrics pages out of evidence: read strictly where they can be, line by line where they can't."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from enginewatch.evidence.redact import redact
from enginewatch.evidence.segments import PageText
from enginewatch.exposition import PageError, parse_page
from enginewatch.model import Labels, Millis, Sample

_MOST_LINES: Final = 20_000
"""Lines of a damaged page that are tried one by one."""
_SHOWN: Final = 300

_SERIES: Final = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>[^}]*)\})?")
_TIME: Final = "t"
_BEFORE: Final[Millis] = -15_000
"""When the scrape before was, where the context does not say."""


@dataclass(frozen=True, slots=True)
class Scrape:
    """One page's samples. `at` is None where the input gives no time; `shown` its first sample."""

    number: int
    at: Millis | None
    samples: tuple[Sample, ...]
    shown: str
    up: bool = True

    def labelled(self, target: Labels) -> Iterator[Sample]:
        """The samples with the target's labels, which give way to the page's own."""
        for sample in self.samples:
            yield Sample(Labels({**target, **sample.labels}), sample.value)

    def about(self, target: Labels) -> Iterator[Sample]:
        """What a scraper notes beside the page, and the families that are on it."""
        yield Sample(target.with_(__name__="up"), float(self.up))
        yield Sample(target.with_(__name__="scrape_samples_scraped"), float(len(self.samples)))
        for family in sorted({sample.labels.name for sample in self.samples}):
            yield Sample(target.with_(__name__="enginewatch_page_family", family=family), 1.0)


def read_page(text: PageText, source: str, notes: list[str]) -> Scrape:
    """The page; a note is added where lines had to be left out."""
    if text.error:
        return Scrape(text.number, text.at, (), f"scrape failed: {text.error}", up=False)
    lines = [line.rstrip(b"\r") for line in text.lines]
    try:
        samples = parse_page(b"\n".join(lines) + b"\n").samples
    except PageError as failure:
        samples = tuple(_line_by_line(lines))
        notes.append(f"{source}:{text.number}: the page is damaged and was read in part: {failure}")
    first = next((line for line in lines if line.strip() and line[:1] != b"#"), b"an empty page")
    shown = redact(first.decode("utf-8", "replace")[:_SHOWN])
    return Scrape(text.number, text.at, samples, shown)


def _line_by_line(lines: Sequence[bytes]) -> Iterator[Sample]:
    seen: set[Labels] = set()
    for line in lines[:_MOST_LINES]:
        if line[:1] == b"#":
            continue
        try:
            found = parse_page(line.strip() + b"\n").samples
        except PageError:
            continue
        for sample in found:
            if sample.labels not in seen:
                seen.add(sample.labels)
                yield sample


def previous_scrape(context: Mapping[str, Any], scrapes: Sequence[Scrape]) -> Iterator[Scrape]:
    """The scrape before the first, as a context gives it: `{t: -15, "name{label=value}": 12}`.

    Labels left out there are those of the series of that name on the first page.
    """
    given = context.get("previous_scrape")
    if not isinstance(given, Mapping) or not scrapes:
        return
    samples = [
        Sample(labels, float(value))
        for text, value in given.items()
        if text != _TIME and _is_number(value)
        for labels in _meant(str(text), scrapes[0])
    ]
    at = round(given[_TIME] * 1000) if _is_number(given.get(_TIME)) else _BEFORE
    yield Scrape(0, at, tuple(samples), "context: previous_scrape")


def _meant(text: str, scrape: Scrape) -> Iterator[Labels]:
    """The labels of the first series on the page that `name{label=value}` can mean."""
    found = _SERIES.fullmatch(text.strip())
    if found is None:
        return
    pairs = (part.partition("=") for part in (found["labels"] or "").split(",") if part)
    wanted = {name.strip(): value.strip().strip('"') for name, _, value in pairs}
    for sample in scrape.samples:
        labels = sample.labels
        if labels.name == found["name"] and all(labels.get(k) == v for k, v in wanted.items()):
            yield labels
            return


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
