"""A page never seen, read by a page of its kind: same comments and series, other label values.

A fleet is a thousand pages of a few kinds. Where two differ in the model's name and
a line of settings, only that much of the second is parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import compress
from typing import Final, NamedTuple

from enginewatch.exposition.errors import PageError
from enginewatch.exposition.grammar import Dialect, parse_sample
from enginewatch.exposition.layout import PageLayout
from enginewatch.exposition.table import Written
from enginewatch.model import METRIC_NAME

_MOST_CHANGES: Final = 4
"""Label values that all series share and that differ between two pages: model, engine, rank."""
_MOST_ODD_LINES: Final = 8
"""Lines that are parsed by themselves: settings, versions."""
_PLAIN: Final = re.compile(r'[^"\\{},\n]+')
_CANONICAL: Final = frozenset({"le", "quantile"})
"""Labels whose value may be spelled in several ways."""


class _Change(NamedTuple):
    """One label has another value, wherever it had the old one."""

    label: str
    old: str
    new: str


class KinLayout(PageLayout):
    """A layout known by another of its kind, its labels worked out only when asked for."""

    __slots__ = ("_base", "_changes", "_odd")

    def __init__(
        self,
        base: PageLayout,
        prefixes: tuple[str, ...],
        changes: tuple[_Change, ...],
        odd: Mapping[int, Written],
    ):
        super().__init__(base.frame, prefixes, base.table)
        self._base: Final = base
        self._changes: Final = changes
        self._odd: Final = odd

    def series(self, index: int) -> dict[str, str]:
        odd = self._odd.get(index)
        if odd is not None:
            return {METRIC_NAME: odd.name, **dict(odd.pairs)}
        labels = self._base.series(index)
        # A series that is spelled otherwise here has been through the changes; others have not.
        if self.prefixes[index] != self._base.prefixes[index]:
            for label, old, new in self._changes:
                if labels.get(label) == old:
                    labels[label] = new
        return labels


def layout_by_kin(base: PageLayout, lines: list[str], dialect: Dialect) -> KinLayout | None:
    """The layout of a page by that of another; None where it takes the strict parser to tell.

    What is returned spells every series as the page does, or as nothing on it: whether
    the page fits, and its values, are for `read` to say. Raises nothing: what is wrong
    with a page, the strict parser says.
    """
    if base.duplicates or not base.frame.fits(lines):
        return None
    samples = list(compress(lines, base.frame.is_sample))
    text = "\n".join(base.prefixes)
    prefixes = list(base.prefixes)
    changes: list[_Change] = []
    tries = 0
    for place in _unlike(samples, prefixes):
        if tries == _MOST_ODD_LINES:
            break
        if samples[place].startswith(prefixes[place]):  # explained by now
            continue
        tries += 1
        found = _changes(base, place, samples[place], dialect)
        if len(changes) + len(found) > _MOST_CHANGES:
            continue
        if found and all(_safe(change, text, changes) for change in found):
            changes += found
            prefixes = _changed(text, changes)
    odd = _odd(base, samples, prefixes, dialect)
    if odd is None:
        return None
    for place, written in odd.items():
        prefixes[place] = written.prefix
    return KinLayout(base, tuple(prefixes), tuple(changes), odd)


def _unlike(samples: list[str], prefixes: list[str]) -> list[int]:
    alike = map(str.startswith, samples, prefixes)
    return [place for place, same in enumerate(alike) if not same]


def _changes(base: PageLayout, place: int, line: str, dialect: Dialect) -> list[_Change]:
    """How the labels of a line differ from the base's; nothing where it has others."""
    before = base.series(place)
    parsed = _parsed(base, place, line, dialect)
    if parsed is None or parsed.name != before.pop(METRIC_NAME):
        return []
    after = dict(parsed.pairs)
    if after.keys() != before.keys():
        return []
    return [_Change(k, before[k], after[k]) for k in before if before[k] != after[k]]


def _safe(change: _Change, text: str, before: list[_Change]) -> bool:
    """Whether replacing text is the same as replacing the value of the label.

    It is where values have one spelling, and where no series has the new one yet: then
    no two become one.
    """
    return (
        change.label not in _CANONICAL
        and all(change.label != other.label for other in before)
        and _PLAIN.fullmatch(change.old) is not None
        and _PLAIN.fullmatch(change.new) is not None
        and not _is_taken(change, text)
    )


def _is_taken(change: _Change, text: str) -> bool:
    """Whether any series may have the new value already, however it is spelled."""
    if f'"{change.new}"' not in text:  # nearly always, and no pattern is as quick
        return False
    pattern = rf'{re.escape(change.label)}"?[ \t]*=[ \t]*"{re.escape(change.new)}"'
    return re.search(pattern, text) is not None


def _changed(text: str, changes: list[_Change]) -> list[str]:
    for label, old, new in changes:
        # A quoted value has no bare quote in it, so that what looks like a whole label is one.
        for before in "{,":
            text = text.replace(f'{before}{label}="{old}"', f'{before}{label}="{new}"')
    return text.split("\n")


def _odd(
    base: PageLayout, samples: list[str], prefixes: list[str], dialect: Dialect
) -> dict[int, Written] | None:
    """The lines that no change explains, each parsed by itself; None where that is not safe."""
    places = list(_places_to_parse(base, samples, prefixes))
    if len(places) > _MOST_ODD_LINES:
        return None
    names = base.frame.names
    found: dict[int, Written] = {}
    for place in places:
        written = _parsed(base, place, samples[place], dialect)
        # Alone under its name, it can be no duplicate of another.
        if written is None or written.name != names[place] or names.count(written.name) != 1:
            return None
        found[place] = written
    return found


def _places_to_parse(base: PageLayout, samples: list[str], prefixes: list[str]) -> Iterator[int]:
    """What still differs, and what a longer value may have put over a limit."""
    yield from _unlike(samples, prefixes)
    harmless = base.table.limits.harmless
    for place, length in enumerate(map(len, prefixes)):
        prefix = prefixes[place]
        if (
            length > harmless
            and prefix != base.prefixes[place]
            and samples[place].startswith(prefix)
        ):
            yield place


def _parsed(base: PageLayout, place: int, line: str, dialect: Dialect) -> Written | None:
    """A sample line by itself, within the limits; None where the strict parser has to judge it."""
    shape = base.frame.shapes[place]
    try:
        prefix, name, pairs, _, at = parse_sample(line, shape, dialect)
        base.table.limits.check_labels(name, pairs)
    except PageError:
        return None
    return None if at is not None else Written(prefix, name, pairs)
