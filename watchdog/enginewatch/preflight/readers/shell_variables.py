"""The variables of a script, and what becomes of them where its ways part.

A variable that two branches leave with two values has one of them when the script runs, and
nothing here can tell which: it is not known from there on. One that only some branches set
has the value that they give it, as `${X:-value}` would; of a list that some branches make
longer (`ARGS+=(...)`) all is kept, so that what is optional is judged too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Word(NamedTuple):
    """A word of a command: what the program gets, and what stood there.

    `known` is False where a part of it comes from outside the script.
    """

    text: str
    raw: str
    line: int
    known: bool = True


@dataclass(slots=True)
class Variable:
    """Several words where it is an array."""

    words: list[Word]
    exported: bool = False

    @property
    def texts(self) -> list[str]:
        return [piece for word in self.words for piece in word.text.split()]


@dataclass(slots=True)
class _Fork:
    """An `if`, a `case` or a loop that one is inside of."""

    is_case: bool
    before: dict[str, Variable | None] = field(default_factory=dict)
    """What the branch one is in has changed, as it was: None where it was not set."""
    ends: list[Mapping[str, Variable | None]] = field(default_factory=list)
    """What each branch that goes on behind the fork has changed."""
    is_total: bool = False
    """Whether one of the branches is taken (`else`, `*)`)."""
    is_inside: bool = True
    """False between `;;` and the next pattern of a `case`."""
    has_left: bool = False


class Variables:
    """By name. Commands see those of their own branch."""

    def __init__(self) -> None:
        self._now: dict[str, Variable] = {}
        self._forks: list[_Fork] = []

    def get(self, name: str) -> Variable | None:
        return self._now.get(name)

    def items(self) -> Iterator[tuple[str, Variable]]:
        yield from self._now.items()

    def set(self, name: str, variable: Variable | None) -> None:
        """None unsets it."""
        if self._forks:
            self._forks[-1].before.setdefault(name, self._now.get(name))
        if variable is None:
            self._now.pop(name, None)
        else:
            self._now[name] = variable

    def open(self, *, is_case: bool = False) -> None:
        self._forks.append(_Fork(is_case, is_inside=not is_case))

    def pattern(self, text: str) -> None:
        """Behind the pattern of a `case`."""
        if self._forks and self._forks[-1].is_case:
            self._forks[-1].is_inside = True
            self._forks[-1].is_total |= text == "*"

    def leave(self) -> None:
        """`exit` and its like: what this branch has set is not seen behind the fork."""
        if self._forks:
            self._forks[-1].has_left = True

    def branch(self, *, is_last: bool = False) -> None:
        """The next branch, which begins where the first began; `else` is the last."""
        if self._forks:
            self._end(self._forks[-1])
            self._forks[-1].is_total |= is_last
            self._forks[-1].is_inside = not self._forks[-1].is_case

    def close(self) -> None:
        """Behind the fork. One that was never opened is passed over."""
        if not self._forks:
            return
        fork = self._forks[-1]
        self._end(fork)
        self._forks.pop()
        ends = fork.ends if fork.is_total else [*fork.ends, {}]
        for name in dict.fromkeys(name for end in ends for name in end):
            before = self._now.get(name)
            self.set(name, _merged(name, [end.get(name, before) for end in ends]))

    def _end(self, fork: _Fork) -> None:
        if fork.is_inside and not fork.has_left:
            fork.ends.append({name: self._now.get(name) for name in fork.before})
        for name, variable in fork.before.items():
            if variable is None:
                self._now.pop(name, None)
            else:
                self._now[name] = variable
        fork.before = {}
        fork.has_left = False


def _merged(name: str, values: list[Variable | None]) -> Variable | None:
    """The one value, or the longest where it only adds to the others; else none that is known."""
    given = [each for each in values if each is not None]
    longest = max(given, key=lambda each: len(each.texts), default=None)
    if longest is None or all(each.texts == longest.texts[: len(each.texts)] for each in given):
        return longest
    unknown = Word(f"${name}", f"${name}", longest.words[0].line, known=False)
    return Variable([unknown], any(each.exported for each in given))
