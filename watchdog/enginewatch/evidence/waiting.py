"""Matches whose meaning depends on lines that are still to come, and how long they wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from enginewatch.evidence.fields import Value
from enginewatch.evidence.lines import Line
from enginewatch.evidence.signatures import Case, Near, Phase, Signature
from enginewatch.evidence.times import Stamp
from enginewatch.model import Millis

MOST_WAITING: Final = 1_000
"""Beyond it the oldest is decided by what has been seen."""
LONGEST_WAIT: Final[Millis] = 600_000
"""How long a match with `after: any` waits in a log that is followed and has no end."""

_LINES_WITHOUT_TIME: Final = 200
"""How near `within` is where a line has no time to measure by."""
_LINES_BETWEEN_CHECKS: Final = 64
_TIME_BETWEEN_CHECKS: Final[Millis] = 1_000


@dataclass(slots=True, eq=False)
class Open:
    """A match: the cases that what came before leaves possible, and the later signs that came."""

    signature: Signature
    line: Line
    fields: Mapping[str, Value]
    phase: Phase
    at: Millis | None
    cases: tuple[Case, ...]
    came: set[Near] = field(default_factory=set)

    def later(self) -> Iterator[Near]:
        for case in self.cases:
            yield from case.after.wanted
            yield from case.after.unwanted

    def is_open(self) -> bool:
        """Whether later lines can still change which case is the first to hold."""
        for case in self.cases:
            wanted, unwanted = case.after
            if self.came.isdisjoint(unwanted):
                # The first case that can still hold: settled if nothing later matters to it.
                return bool(unwanted) or not self.came.issuperset(wanted)
        return False

    def case(self) -> Case | None:
        """The first case that holds by what has come."""
        for each in self.cases:
            wanted, unwanted = each.after
            if self.came.issuperset(wanted) and self.came.isdisjoint(unwanted):
                return each
        return None


class WaitingRoom:
    """Open matches in the order of their lines, and what they wait for."""

    def __init__(self) -> None:
        self._waiting: list[Open] = []
        self._awaited: Final[Counter[str]] = Counter()
        self._checked: tuple[int, Millis] = (0, 0)

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, match: Open) -> Open | None:
        """The one that has to leave for it, where too many wait."""
        self._waiting.append(match)
        self._awaited.update(name for near in match.later() for name in near.seen)
        return self._leave(self._waiting.pop(0)) if len(self._waiting) > MOST_WAITING else None

    def arrived(self, names: set[str], line: Line) -> list[Open]:
        """Those that a line which matched these signatures decides."""
        if self._awaited.keys().isdisjoint(names):
            return []
        for each in self._waiting:
            for near in each.later():
                lines = line.number - each.line.number
                if not near.seen.isdisjoint(names) and is_within(
                    near, lines, span(each.line.stamp, line.stamp)
                ):
                    each.came.add(near)
        return self._let_go([each for each in self._waiting if not each.is_open()])

    def is_due(self, number: int, at: Millis | None) -> bool:
        """Whether it is time to look who has waited for long enough."""
        if not self._waiting:
            return False
        lines, when = self._checked
        return number - lines >= _LINES_BETWEEN_CHECKS or (
            at is not None and at - when >= _TIME_BETWEEN_CHECKS
        )

    def over(self, number: int, stamp: Stamp | None, at: Millis | None) -> Sequence[Open]:
        """Those that have waited for as long as any of their cases asks; checked now and then."""
        if not self.is_due(number, at):
            return ()
        self._checked = (number, self._checked[1] if at is None else at)
        return self._let_go([each for each in self._waiting if _is_over(each, number, stamp, at)])

    def drain(self) -> list[Open]:
        """All of them: nothing more will come."""
        return self._let_go(list(self._waiting))

    def _let_go(self, leaving: list[Open]) -> list[Open]:
        if leaving:
            gone = {id(self._leave(each)) for each in leaving}
            self._waiting = [each for each in self._waiting if id(each) not in gone]
        return leaving

    def _leave(self, match: Open) -> Open:
        self._awaited.subtract(name for near in match.later() for name in near.seen)
        for name in [name for name, count in self._awaited.items() if count <= 0]:
            del self._awaited[name]
        return match


def _is_over(match: Open, number: int, stamp: Stamp | None, at: Millis | None) -> bool:
    limits = list(match.later())
    lines = number - match.line.number
    if all(near.lines is not None and lines > near.lines for near in limits):
        return True
    longest = max((near.within or LONGEST_WAIT for near in limits), default=0)
    if at is not None and match.at is not None:
        return at - match.at > longest
    # Input that is read in one go has an end to wait for, where `any` is asked.
    if any(near.within is None for near in limits):
        return False
    passed = span(match.line.stamp, stamp)
    return passed is not None and passed > longest


def span(earlier: Stamp | None, later: Stamp | None) -> Millis | None:
    return later.since(earlier) if later is not None else None


def is_within(near: Near, lines: int, passed: Millis | None) -> bool:
    """Whether so many lines and so much time (None: not known) is near."""
    if near.lines is not None and lines > near.lines:
        return False
    if near.within is None:
        return True
    if passed is None:
        return lines <= _LINES_WITHOUT_TIME
    return 0 <= passed <= near.within
