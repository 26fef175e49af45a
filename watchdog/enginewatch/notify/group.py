"""A group of alerts, and what each receiver has been told of it: pure, the clock an argument.

Nothing here is a queue. A lane remembers what its receiver knows; its next
notification is the difference between that and the alerts as they are, worked
out when it can be sent. So a receiver that was away for an hour is told what is
true and what it missed, not an hour of history, and memory does not grow
meanwhile. What it must not miss is remembered:

- an alert that fired is told as firing, also when it has resolved since;
- an alert that may have been told as firing is told as resolved, whatever
  silences say by then;
- an alert that fires again is told as firing when its end may have been told;
- nothing is told as resolved that can't have been told as firing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, NamedTuple

from enginewatch.model import Alert, Labels, Millis
from enginewatch.notify.lane import Draft, Lane, Member, Told
from enginewatch.notify.message import Reason, Receipt
from enginewatch.notify.reach import PAGE
from enginewatch.notify.route import Timing

GIVE_UP_AFTER: Final[Millis] = 24 * 3_600_000
"""An alert that ended so long ago is not told to a receiver that has refused it ever since."""

RECHECK: Final[Millis] = 60_000
"""A repetition that was due while there was nothing to tell is looked at again after this."""


NO_RESENDS: Final[Mapping[str, Millis]] = MappingProxyType({})

NO_TIMING: Final = Timing(0, 0, 0)
"""Of a group that was read and has not found its route yet."""


@dataclass(slots=True)
class Group:
    """The alerts that one route tells together: `route` is its key. `resends` is the plan's."""

    key: str
    route: str
    labels: Labels
    timing: Timing
    members: dict[Labels, Member] = field(default_factory=dict)
    lanes: dict[str, Lane] = field(default_factory=dict)
    resends: Mapping[str, Millis] = field(default_factory=lambda: NO_RESENDS)

    def known(self, member: Member) -> bool:
        """Whether any receiver may have been told of a member."""
        return any(member.id in lane.told for lane in self.lanes.values())

    def frozen(self) -> GroupState:
        return GroupState(self.key, self.route, self.labels, tuple(self.lanes.values()))


class GroupState(NamedTuple):
    """A group without its members, as it is saved."""

    key: str
    route: str
    labels: Labels
    lanes: tuple[Lane, ...]


class _News(NamedTuple):
    fresh: list[Member]
    known: list[Member]
    over: list[Member]


def _news(group: Group, lane: Lane) -> _News:
    news = _News([], [], [])
    for member in group.members.values():
        told = lane.told.get(member.id)
        if told is Told.RESOLVED:
            continue
        sure = told is Told.FIRING or told is Told.ENDING
        if not sure and member.to_tell and lane.open:
            news.fresh.append(member)
        elif told is not None:
            (news.known if member.fires else news.over).append(member)
    return news


def due(group: Group, lane: Lane, now: Millis) -> Millis | None:
    """When there may be something to tell on a lane; None while there is nothing to wait for."""
    if lane.attempts:
        return (lane.failed_at or now) + lane.wait
    forgets_at = _resent_at(group, lane)
    if lane.news_at is not None:
        at = lane.news_at + group.timing.group_wait
        if lane.decided_at is not None and lane.knows and not _worsened(group, lane):
            # A new incident is told at once, and so is one that turns from a ticket into a page; of
            # a known one, not more often than asked for.
            at = max(at, lane.decided_at + group.timing.group_interval)
        return at if forgets_at is None else min(at, forgets_at)
    if forgets_at is not None:
        return forgets_at
    if lane.open and lane.delivered_at is not None and lane.knows:
        return _rechecked(lane, lane.delivered_at + group.timing.repeat_interval)
    return None


def _worsened(group: Group, lane: Lane) -> bool:
    """Whether the news is a page, to a receiver that has heard of lesser alerts only."""
    pages = [each for each in group.members.values() if each.alert.labels.get("severity") == PAGE]
    heard = any(each.id in lane.told for each in pages)
    return not heard and any(each.to_tell for each in pages)


def _resent_at(group: Group, lane: Lane) -> Millis | None:
    """When to tell a receiver again that forgets what fires; None of one that does not."""
    after = group.resends.get(lane.receiver)
    if after is None or lane.delivered_at is None or not lane.knows:
        return None
    return _rechecked(lane, lane.delivered_at + after)


def _rechecked(lane: Lane, at: Millis) -> Millis:
    return at if lane.looked_at is None else max(at, lane.looked_at + RECHECK)


def decide(
    group: Group,
    lane: Lane,
    now: Millis,
    is_muted: Callable[[Alert], bool],
    *,
    send_resolved: bool = True,
) -> Draft | None:
    """What to tell on a lane now, or None. Changes nothing."""
    fresh, known, over = _news(group, lane)
    resolved = tuple(over) if send_resolved else ()
    if fresh:
        reason = Reason.NEW_ALERTS if known or over else Reason.FIRST
    elif resolved:
        reason = Reason.NEW_RESOLVED if known else Reason.ALL_RESOLVED
    elif _repeats(group, lane, known, now, is_muted):
        reason = Reason.REPEAT
    elif known and (at := _resent_at(group, lane)) is not None and at <= now:
        reason = Reason.RESEND
    else:
        return None
    return Draft(
        lane.receiver,
        reason,
        now,
        tuple(_as_firing(member) for member in fresh) + tuple(known),
        resolved,
        frozenset(member.id for member in fresh),
        lane,
    )


def _as_firing(member: Member) -> Member:
    """The member as its receiver has to hear of it first."""
    if member.fires:
        return member
    return member._replace(alert=replace(member.alert, resolved_at=None))


def _repeats(
    group: Group,
    lane: Lane,
    known: Iterable[Member],
    now: Millis,
    is_muted: Callable[[Alert], bool],
) -> bool:
    if not lane.open or lane.delivered_at is None:
        return False
    if now - lane.delivered_at < group.timing.repeat_interval:
        return False
    return any(member.belongs and not is_muted(member.alert) for member in known)


def delivered(
    group: Group, lane: Lane, draft: Draft, receipt: Receipt, now: Millis, *, send_resolved: bool
) -> Lane:
    """The lane once its receiver has taken a draft."""
    told = dict(lane.told)
    members = {member.id: member for member in group.members.values()}
    for sent in draft.firing:
        if sent.id in members:
            told[sent.id] = Told.FIRING
    for sent in draft.resolved:
        _told_resolved(told, sent, members.get(sent.id))
    lane = lane._replace(
        told=told,
        delivered_at=now,
        failed_at=None,
        wait=0,
        attempts=0,
        owed_since=None,
        doubt=False,
        receipt=receipt,
    )
    if not send_resolved:
        lane = without_resolves(group, lane)
    if not lane.knows:
        lane = lane._replace(receipt=None)
    fresh, _, over = _news(group, lane)
    if (fresh or over) and lane.news_at is None:
        # It changed while this was on its way or before: no newer than what was just told.
        # A clock that was set back meanwhile must not make it wait until it is there again.
        at = min(draft.at, now)
        lane = lane._replace(news_at=at - group.timing.group_wait, decided_at=None)
    return lane


def _told_resolved(told: dict[int, Told], sent: Member, member: Member | None) -> None:
    if member is None:
        told.pop(sent.id, None)
    elif member.alert.resolved_at == sent.alert.resolved_at:
        told[sent.id] = Told.RESOLVED
    else:
        # It has fired again meanwhile, and perhaps ended again: another incident.
        del told[sent.id]


def without_resolves(group: Group, lane: Lane) -> Lane:
    """The lane of a receiver that does not hear of ends, as if it had."""
    over = {member.id: Told.RESOLVED for member in _news(group, lane).over}
    return lane._replace(told={**lane.told, **over}) if over else lane


def fired(group: Group, member: Member, now: Millis) -> None:
    """A member fires, for the first time or again."""
    group.members[member.alert.labels] = member
    to_tell = member.to_tell
    for name, lane in group.lanes.items():
        told, known = lane.told, lane.told.get(member.id)
        if known is Told.RESOLVED:
            told = {id_: what for id_, what in told.items() if id_ != member.id}
        elif known is Told.ENDING:
            told = {**told, member.id: Told.MAYBE}
        # A resolve that was not told yet is none any more: the incident goes on.
        news = to_tell and lane.open and known is not Told.FIRING
        news_at = _since(lane, now) if news else lane.news_at
        if told is not lane.told or news_at != lane.news_at:
            group.lanes[name] = lane._replace(told=told, news_at=news_at)


def resolved(group: Group, member: Member, now: Millis) -> None:
    """A member has resolved."""
    group.members[member.alert.labels] = member
    for name, lane in group.lanes.items():
        told = lane.told.get(member.id)
        owed = told is None and member.to_tell and lane.open
        if lane.news_at is None and (owed or told in (Told.MAYBE, Told.FIRING)):
            group.lanes[name] = lane._replace(news_at=now)


def _since(lane: Lane, now: Millis) -> Millis:
    return now if lane.news_at is None else lane.news_at


def forget(group: Group, members: Iterable[Member]) -> None:
    """Members leave the group, and its lanes' memory."""
    gone = set()
    for member in members:
        del group.members[member.alert.labels]
        gone.add(member.id)
    for name, lane in group.lanes.items():
        if not gone.isdisjoint(lane.told):
            told = {id_: what for id_, what in lane.told.items() if id_ not in gone}
            group.lanes[name] = lane._replace(told=told)


def finished(group: Group, members: Iterable[Member], now: Millis) -> list[Member]:
    """Those members that have resolved and of which nobody is left to be told."""
    return [
        member
        for member in members
        if not member.fires and all(_is_done(member, lane, now) for lane in group.lanes.values())
    ]


def untold(group: Group) -> list[Alert]:
    """Alerts that are over before anybody was told of them, and still have to be."""
    return [
        member.alert
        for member in group.members.values()
        if member.to_tell and not member.fires and not group.known(member)
    ]


def abandoned(group: Group, members: Iterable[Member]) -> list[str]:
    """Receivers that have never been told of one of these, or not of its end."""
    ids = {member.id for member in members if member.to_tell}
    return [
        name
        for name, lane in group.lanes.items()
        if lane.attempts and any(lane.told.get(id_) is not Told.RESOLVED for id_ in ids)
    ]


def _is_done(member: Member, lane: Lane, now: Millis) -> bool:
    told = lane.told.get(member.id)
    if told is Told.RESOLVED:
        return True
    if told is None and not (member.to_tell and lane.open):
        return True
    return lane.attempts > 0 and now - (member.alert.resolved_at or now) > GIVE_UP_AFTER


def regroup_lanes(
    group: Group, receivers: Iterable[str], known: Iterable[str], now: Millis
) -> list[str]:
    """Gives a group the lanes of another configuration, in which `known` are all receivers.

    What is told to `receivers` goes on; others that know of an alert stay to hear
    of its end. Gives those that are no more although they do.
    """
    open_, lanes = dict.fromkeys(receivers), group.lanes
    group.lanes = {}
    gone = []
    for name in open_:
        lane = lanes.get(name, Lane(name))._replace(open=True)
        fresh, _, over = _news(group, lane)
        group.lanes[name] = lane._replace(news_at=_since(lane, now)) if fresh or over else lane
    for name, lane in lanes.items():
        if name in open_ or not lane.knows:
            continue
        if name in set(known):
            group.lanes[name] = lane._replace(open=False)
        else:
            gone.append(name)
    return gone
