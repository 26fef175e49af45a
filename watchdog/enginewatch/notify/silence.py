"""Silences: alerts that somebody wants not to hear of for a while, by matchers.

Alertmanager's life of a silence (`silence/silence.go`): pending, active, expired.
An active one can have its end and comment changed; any other change expires it
and makes another. Nothing is deleted before it has been expired for a while, so
that "who silenced this last night" has an answer.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from enginewatch.errors import EnginewatchError
from enginewatch.model import Labels, Matcher, MatchOp, Millis, matches_all

RETENTION: Final[Millis] = 120 * 3600_000
"""How long an expired silence can still be looked up; Alertmanager's default."""

MOST: Final = 10_000
LONGEST_TEXT: Final = 4_096


class SilenceError(EnginewatchError):
    """A silence that makes no sense, or is not there."""


class SilenceState(StrEnum):
    PENDING = "pending"
    ACTIVE = "active"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Silence:
    """Alerts that all `matchers` accept are silent for `starts_at <= now < ends_at`.

    `id` is empty for one that is not known yet.
    """

    matchers: tuple[Matcher, ...]
    starts_at: Millis
    ends_at: Millis
    created_by: str
    comment: str
    id: str = ""
    updated_at: Millis = 0

    def state(self, now: Millis) -> SilenceState:
        if now >= self.ends_at:
            return SilenceState.EXPIRED
        return SilenceState.PENDING if now < self.starts_at else SilenceState.ACTIVE


class Silences:
    """All silences. Without clock and I/O; `changed` is what its owner has yet to save."""

    def __init__(self, known: Iterable[Silence] = ()):
        self._all: dict[str, Silence] = {silence.id: silence for silence in known}
        self._changed: dict[str, Silence | None] = {}

    def all(self) -> tuple[Silence, ...]:
        return tuple(self._all.values())

    def get(self, id_: str) -> Silence:
        """Raises SilenceError when there is none of this id."""
        try:
            return self._all[id_]
        except KeyError:
            raise SilenceError(f"no silence has the id {id_!r}") from None

    def put(self, silence: Silence, now: Millis) -> Silence:
        """Adds a silence, or changes the one of its id; gives it as it is kept.

        A start in the past becomes now. Raises SilenceError.
        """
        _check(silence, now)
        known = self.get(silence.id) if silence.id else None
        if known is not None and _same_but_for_its_end(known, silence, now):
            return self._keep(silence, now)
        if known is not None and known.state(now) is not SilenceState.EXPIRED:
            self.expire(known.id, now)
        if len(self._all) >= MOST:
            raise SilenceError(f"there are {MOST} silences already", hint="expire some")
        starts = max(silence.starts_at, now)
        return self._keep(replace(silence, id=str(uuid.uuid4()), starts_at=starts), now)

    def expire(self, id_: str, now: Millis) -> Silence:
        """Ends a silence at once. Raises SilenceError when it is unknown or has ended."""
        silence = self.get(id_)
        if silence.state(now) is SilenceState.EXPIRED:
            raise SilenceError(f"the silence {id_} has already expired")
        starts = min(silence.starts_at, now)
        return self._keep(replace(silence, starts_at=starts, ends_at=now), now)

    def active(self, now: Millis) -> tuple[Silence, ...]:
        return tuple([each for each in self._all.values() if each.starts_at <= now < each.ends_at])

    def shift(self, span: Millis, now: Millis) -> None:
        """The wall clock was set by `span`, and is at `now`.

        What is in force stays so for as long as it would have, and what has expired stays
        expired. What has yet to begin was planned by the calendar, and stays where it is.
        """
        for silence in self.all():
            if silence.state(now - span) is not SilenceState.PENDING:
                self._keep(_moved(silence, span), now)

    def forget(self, now: Millis) -> None:
        """Deletes what has been expired for longer than `RETENTION`."""
        for id_, silence in list(self._all.items()):
            if now - silence.ends_at > RETENTION:
                del self._all[id_]
                self._changed[id_] = None

    def changed(self) -> Mapping[str, Silence | None]:
        """By id, what was changed since the last call, None for what was deleted."""
        changed, self._changed = self._changed, {}
        return changed

    def _keep(self, silence: Silence, now: Millis) -> Silence:
        kept = replace(silence, updated_at=now)
        self._all[kept.id] = self._changed[kept.id] = kept
        return kept


def silenced_by(silences: Iterable[Silence], labels: Labels) -> tuple[str, ...]:
    """The ids of those silences that match."""
    return tuple([each.id for each in silences if matches_all(labels, each.matchers)])


def _moved(silence: Silence, span: Millis) -> Silence:
    return replace(silence, starts_at=silence.starts_at + span, ends_at=silence.ends_at + span)


def _check(silence: Silence, now: Millis) -> None:
    if not silence.matchers:
        raise SilenceError("a silence needs a matcher", hint='like deployment="chat"')
    if all(matcher.matches("") for matcher in silence.matchers):
        raise SilenceError(
            "a silence that matches alerts without any label would silence everything",
            hint="give a matcher that asks for something",
        )
    if silence.ends_at <= silence.starts_at:
        raise SilenceError("the silence ends before it begins")
    if silence.ends_at <= now:
        raise SilenceError("the silence would have ended already")
    for what, text in (("comment", silence.comment), ("creator", silence.created_by)):
        if not text.strip():
            raise SilenceError(f"a silence needs a {what}", hint="others want to know")
        if len(text) > LONGEST_TEXT:
            raise SilenceError(f"the {what} is longer than {LONGEST_TEXT} characters")


def _same_but_for_its_end(known: Silence, other: Silence, now: Millis) -> bool:
    """Whether `known` can become `other` while it goes on."""
    state = known.state(now)
    if state is SilenceState.EXPIRED or _matchers(known) != _matchers(other):
        return False
    if state is SilenceState.ACTIVE:
        # Clients may have rounded what they were told to seconds.
        return other.starts_at // 1000 == known.starts_at // 1000
    return other.starts_at >= now


def _matchers(silence: Silence) -> frozenset[tuple[str, MatchOp, str]]:
    return frozenset((m.name, m.op, m.value) for m in silence.matchers)
