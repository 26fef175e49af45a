"""What one receiver has been told of a group of alerts, and what an attempt makes of that: pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from enginewatch.model import Alert, Millis
from enginewatch.notify.message import Reason, Receipt
from enginewatch.notify.route import Timing


class Told(IntEnum):
    """What a receiver has been told of an alert."""

    MAYBE = 1
    """That it fires, perhaps: no answer came, or the daemon ended before it did."""
    FIRING = 2
    RESOLVED = 3
    ENDING = 4
    """That it has resolved, perhaps. Where it fires again, that has to be told."""


class Member(NamedTuple):
    """An alert of a group, firing or resolved.

    `id` is unique over all groups, and short. `heard` is False while silences,
    inhibitions and quiet hours keep it from being told. `belongs` turns False
    when a new configuration routes it elsewhere: its end is still told.
    """

    id: int
    alert: Alert
    heard: bool
    belongs: bool = True

    @property
    def fires(self) -> bool:
        return self.alert.resolved_at is None

    @property
    def to_tell(self) -> bool:
        return self.heard and self.belongs


NOBODY_TOLD: Final[Mapping[int, Told]] = MappingProxyType({})


class Lane(NamedTuple):
    """What one receiver has been told of a group, by member; in order, one thing at a time.

    `news_at` is since when there is something new to tell. `decided_at` and
    `delivered_at` are those of the last notification. `failed_at`, `wait` and
    `attempts` speak of attempts that failed since the last delivery, `doubt` says
    that one of them may have arrived, `owed_since` tells how old the news is that
    they were to bring. `looked_at` is when a repetition was due and
    there was none to tell. `open` is False for a receiver that the
    routes no longer name: it is told how what it knows of ends, and nothing else.
    """

    receiver: str
    told: Mapping[int, Told] = NOBODY_TOLD
    news_at: Millis | None = None
    decided_at: Millis | None = None
    delivered_at: Millis | None = None
    failed_at: Millis | None = None
    wait: Millis = 0
    attempts: int = 0
    owed_since: Millis | None = None
    looked_at: Millis | None = None
    doubt: bool = False
    receipt: Receipt | None = None
    open: bool = True

    @property
    def knows(self) -> bool:
        """Whether the receiver may think that something fires."""
        return any(told is not Told.RESOLVED for told in self.told.values())


@dataclass(frozen=True, slots=True)
class Draft:
    """What is about to be told on a lane; `resolved` may be empty, `firing` too, but not both.

    `fresh` are the members that the receiver was not known to have been told of.
    """

    receiver: str
    reason: Reason
    at: Millis
    firing: tuple[Member, ...]
    resolved: tuple[Member, ...]
    fresh: frozenset[int]
    before: Lane

    @property
    def same_as(self) -> tuple[object, ...]:
        """What two attempts at the same notification have in common."""
        return self.reason, [m.id for m in self.firing], [m.id for m in self.resolved]


def sending(lane: Lane, draft: Draft) -> Lane:
    """The lane while a draft is on its way: from now on its alerts may have been told."""
    ending = dict.fromkeys((member.id for member in draft.resolved), Told.ENDING)
    told = {**lane.told, **dict.fromkeys(draft.fresh, Told.MAYBE), **ending}
    owed_since = lane.news_at if lane.owed_since is None else lane.owed_since
    return lane._replace(
        told=told,
        news_at=None,
        decided_at=draft.at,
        failed_at=draft.at,
        attempts=lane.attempts + 1,
        owed_since=draft.at if owed_since is None else owed_since,
        doubt=True,
    )


def failed(lane: Lane, draft: Draft, now: Millis, wait: Millis, *, maybe_delivered: bool) -> Lane:
    """The lane after an attempt that failed; the next is due after `wait`."""
    told = lane.told if maybe_delivered else _untold(lane.told, draft)
    doubt = lane.doubt if maybe_delivered else draft.before.doubt
    return lane._replace(told=told, failed_at=now, wait=wait, doubt=doubt)


def _untold(told: Mapping[int, Told], draft: Draft) -> Mapping[int, Told]:
    """What a receiver knows that has certainly not taken a draft."""
    before = draft.before.told
    found = dict(told)
    for id_ in draft.fresh:
        if found.get(id_) is Told.MAYBE and id_ not in before:
            del found[id_]
    for id_ in (member.id for member in draft.resolved):
        # ENDING as it was sent, or MAYBE if it has fired again since.
        if found.get(id_) in (Told.ENDING, Told.MAYBE) and before[id_] is not Told.ENDING:
            found[id_] = before[id_]
    return found


def interrupted(lane: Lane, now: Millis) -> Lane:
    """The lane as it goes on in another process: what was on its way is tried again at once.

    Times that have not come yet are from a clock that was wrong, then or now.
    """

    def past(at: Millis | None) -> Millis | None:
        return None if at is None else min(at, now)

    return lane._replace(
        news_at=past(lane.news_at),
        decided_at=past(lane.decided_at),
        delivered_at=past(lane.delivered_at),
        owed_since=past(lane.owed_since),
        looked_at=past(lane.looked_at),
        failed_at=now if lane.attempts else None,
        wait=0,
    )


def settled(lane: Lane, now: Millis) -> Lane:
    """The lane when it turns out that there is nothing to tell."""
    return lane._replace(
        failed_at=None,
        wait=0,
        attempts=0,
        owed_since=None,
        news_at=None,
        looked_at=now,
    )


def hurried(lane: Lane, timing: Timing) -> Lane:
    """The lane with what waits for its time due at once, unless it has been refused."""
    if lane.news_at is None or lane.attempts:
        return lane
    return lane._replace(news_at=lane.news_at - timing.group_wait, decided_at=None)


def shifted(lane: Lane, span: Millis) -> Lane:
    """The lane with its times moved along with a clock that was set."""

    def moved(at: Millis | None) -> Millis | None:
        return None if at is None else at + span

    return lane._replace(
        news_at=moved(lane.news_at),
        decided_at=moved(lane.decided_at),
        delivered_at=moved(lane.delivered_at),
        failed_at=moved(lane.failed_at),
        owed_since=moved(lane.owed_since),
        looked_at=moved(lane.looked_at),
    )
