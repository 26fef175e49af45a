"""What an expression needs from a target: a tree of raw series, AND and OR.

The tree is judged for many targets at once: `World` answers with one truth value
a target. Besides present and missing there is a third answer, "does not apply":
an alert on `{runtime="trtllm"}` asks nothing of a vLLM server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from enginewatch.model import Matcher
from enginewatch.store.base import BoolArray

_MOST_ALTERNATIVES: Final = 4
_MOST_NAMES: Final = 8


class Need:
    """Base of the tree's nodes."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Series(Need):
    """A raw series of this name. `offered` is False for one that no rule makes for the runtime."""

    name: str
    offered: bool = True


@dataclass(frozen=True, slots=True)
class All(Need):
    """Every part that applies is needed; applies if all parts do. Without parts: needs nothing."""

    parts: tuple[Need, ...] = ()


@dataclass(frozen=True, slots=True)
class Either(Need):
    """One part is enough; applies if any part does. Without parts: never applies."""

    parts: tuple[Need, ...] = ()


@dataclass(frozen=True, slots=True)
class Where(Need):
    """`need`, asked only of targets whose own labels pass the matchers."""

    matchers: tuple[Matcher, ...]
    need: Need


NOTHING: Final[Need] = All()
NOT_ASKED: Final[Need] = Either()


def all_of(parts: Iterable[Need]) -> Need:
    kept = dict.fromkeys(
        inner for part in parts for inner in (part.parts if isinstance(part, All) else (part,))
    )
    if NOT_ASKED in kept:
        return NOT_ASKED
    return next(iter(kept)) if len(kept) == 1 else All(tuple(kept))


def either_of(parts: Iterable[Need]) -> Need:
    kept = dict.fromkeys(
        inner for part in parts for inner in (part.parts if isinstance(part, Either) else (part,))
    )
    if NOTHING in kept:
        return NOTHING
    return next(iter(kept)) if len(kept) == 1 else Either(tuple(kept))


def where(matchers: Iterable[Matcher], need: Need) -> Need:
    kept = tuple(matchers)
    return Where(kept, need) if kept and need not in (NOTHING, NOT_ASKED) else need


def series_of(need: Need) -> Iterator[Series]:
    """All series named in the tree, on whatever side."""
    match need:
        case Series():
            yield need
        case All(parts=parts) | Either(parts=parts):
            for part in parts:
                yield from series_of(part)
        case Where(need=inner):
            yield from series_of(inner)


Passes = Callable[[tuple[Matcher, ...]], bool]
"""Whether one target's own labels pass."""


def matchers_of(need: Need) -> Iterator[tuple[Matcher, ...]]:
    """All conditions on a target's own labels in the tree."""
    match need:
        case All(parts=parts) | Either(parts=parts):
            for part in parts:
                yield from matchers_of(part)
        case Where(matchers=matchers, need=inner):
            yield matchers
            yield from matchers_of(inner)


class World(NamedTuple):
    """What there is, one truth value a target."""

    size: int
    present: Callable[[str], BoolArray]
    passes: Callable[[tuple[Matcher, ...]], BoolArray]


class Judgement(NamedTuple):
    """Which targets the need applies to, and which satisfy it. One that it doesn't apply to may
    be either in `met`."""

    applies: BoolArray
    met: BoolArray


def judge(need: Need, world: World) -> Judgement:
    match need:
        case Series(name=name, offered=offered):
            everyone = np.ones(world.size, np.bool_)
            return Judgement(everyone, world.present(name) if offered else ~everyone)
        case Where(matchers=matchers, need=inner):
            applies, met = judge(inner, world)
            return Judgement(applies & world.passes(matchers), met)
        case All(parts=parts):
            applies, met = np.ones(world.size, np.bool_), np.ones(world.size, np.bool_)
            for part in parts:
                found = judge(part, world)
                applies, met = applies & found.applies, met & found.met
            return Judgement(applies, met)
        case Either(parts=parts):
            applies, met = np.zeros(world.size, np.bool_), np.zeros(world.size, np.bool_)
            for part in parts:
                found = judge(part, world)
                applies, met = applies | found.applies, met | (found.applies & found.met)
            return Judgement(applies, met)
    raise TypeError(f"not a need: {need!r}")


def met(need: Need, has: Callable[[str], bool], passes: Passes) -> bool:
    """Whether the need applies to one target and is satisfied by it."""
    match need:
        case Series(name=name, offered=offered):
            return offered and has(name)
        case Where(matchers=matchers, need=inner):
            return passes(matchers) and met(inner, has, passes)
        case All(parts=parts):
            return all(met(part, has, passes) for part in parts)
        case Either(parts=parts):
            return any(met(part, has, passes) for part in parts)
    raise TypeError(f"not a need: {need!r}")


class Missing(NamedTuple):
    """What one target lacks: `items` are all wanted; empty when the need is met.

    `offered` is False where no rule makes what is missing for the target's runtime.
    """

    items: tuple[str, ...]
    offered: bool = True


def missing(
    need: Need,
    has: Callable[[str], bool],
    passes: Passes,
) -> Missing | None:
    """What one target lacks, or None when the need does not apply to it."""
    match need:
        case Series(name=name, offered=offered):
            return Missing(()) if offered and has(name) else Missing((name,), offered)
        case Where(matchers=matchers, need=inner):
            return missing(inner, has, passes) if passes(matchers) else None
        case All(parts=parts):
            found = [missing(part, has, passes) for part in parts]
            if None in found:
                return None
            # One part that can't be had is why the whole can't be.
            hopeless = [each for each in found if each and not each.offered]
            telling = hopeless or [each for each in found if each]
            items = dict.fromkeys(item for each in telling for item in each.items)
            return Missing(tuple(items), not hopeless)
        case Either(parts=parts):
            sides = [side for part in parts if (side := missing(part, has, passes)) is not None]
            return _least(sides) if sides else None
    raise TypeError(f"not a need: {need!r}")


def _least(sides: list[Missing]) -> Missing:
    """What is missing where one side would be enough: `a or (b, c)`.

    A side that lacks all that another lacks, and more, is not worth telling; nor
    is one that can't be had, beside one that can.
    """
    if any(not side.items for side in sides):
        return Missing(())
    offered = [side for side in sides if side.offered]
    telling = offered or sides
    distinct = list(dict.fromkeys(side.items for side in telling))
    least = [items for items in distinct if not any(set(other) < set(items) for other in distinct)]
    if len(least) == 1:
        return Missing(least[0], bool(offered))
    return Missing((" or ".join(map(_grouped, _capped(least, _MOST_ALTERNATIVES))),), bool(offered))


def _grouped(items: tuple[str, ...]) -> str:
    if len(items) == 1:
        return f"({items[0]})" if " or " in items[0] else items[0]
    return f"({', '.join(items)})"


def _capped(items: list[tuple[str, ...]], most: int) -> list[tuple[str, ...]]:
    return items if len(items) <= most else [*items[:most], ("…",)]


def listed(items: Iterable[str]) -> str:
    """Missing items as one readable text, of bounded length."""
    names = list(dict.fromkeys(items))
    more = len(names) - _MOST_NAMES
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:_MOST_NAMES])} and {more} more"
