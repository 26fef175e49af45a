"""From changes of alerts to what each receiver has yet to be told: routes, groups, mutes.

It keeps state in memory, but has no clock and does no I/O. One thread uses it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from enginewatch.model import Alert, AlertState, Labels, Millis
from enginewatch.notify import group as groups
from enginewatch.notify import lane as lanes
from enginewatch.notify.group import Group
from enginewatch.notify.lane import Draft, Lane
from enginewatch.notify.ledger import Changes, Due, Ledger, Saved
from enginewatch.notify.message import Receipt
from enginewatch.notify.mute import Mutes, MuteView, Muting
from enginewatch.notify.route import Route, Routing

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Plan:
    """Who is told, by configuration: the tree, each receiver's integrations, those of them
    that do not want to hear of ends, and those that forget what fires unless told again, with the
    time after which that is done."""

    tree: Route
    integrations: Mapping[str, tuple[str, ...]]
    without_ends: frozenset[str] = frozenset()
    resends: Mapping[str, Millis] = field(default_factory=lambda: groups.NO_RESENDS)


class Pipeline:
    """The groups of one configuration at a time; `rearrange` puts another in its place."""

    def __init__(self, plan: Plan, mutes: Mutes):
        self._ledger: Final = Ledger()
        self._withheld: dict[str, None] = {}
        self.given_up: list[str] = []
        """Receivers that never took something before it was given up; for the owner to count."""
        self._set_up(plan, mutes)

    def _set_up(self, plan: Plan, mutes: Mutes) -> None:
        self.plan = plan
        self.mutes = mutes
        self._routes = {route.key: route for route in plan.tree.walk()}
        self._routing = Routing(plan.tree)

    # What its owner asks.

    def groups(self) -> Iterable[Group]:
        return self._ledger.groups.values()

    def group(self, key: str) -> Group | None:
        return self._ledger.groups.get(key)

    def changes(self) -> Changes:
        """What has changed since the last call, to be saved."""
        found = self._ledger.changes()
        found.silences = dict(self.mutes.silences.changed())
        return found

    def everything(self) -> Changes:
        """All there is, to be saved anew."""
        found = self._ledger.everything()
        found.silences = {silence.id: silence for silence in self.mutes.silences.all()}
        return found

    def due(self, now: Millis) -> list[Due]:
        """The lanes whose time may have changed since the last call."""
        return self._ledger.due(now)

    def muting(self, alert: Alert, now: Millis) -> Muting:
        """Why an alert is not told of now; quiet hours count when every route has them."""
        view = self.mutes.at(now)
        taken = [view.by(route, alert) for route in self._routing.match(alert.labels)]
        if not taken:
            return view.alert(alert)
        return min(taken, key=lambda muting: len(muting.quiet_by))

    # What happens.

    def take(self, alerts: Iterable[Alert], now: Millis) -> None:
        """Alerts that began to fire or resolved, in order; others say nothing new."""
        alerts = list(alerts)
        for alert in alerts:
            if alert.state is AlertState.FIRING:
                self.mutes.inhibitor.fires(alert.labels)
        view = self.mutes.at(now)
        for alert in alerts:
            if alert.state is AlertState.FIRING:
                self._fired(alert, now, view)
            elif alert.state is AlertState.RESOLVED:
                self._resolved(alert, now, view)
        # Last: what ends together with what explains it was explained to its end.
        for alert in alerts:
            if alert.state is AlertState.RESOLVED:
                self.mutes.inhibitor.ends(alert.labels, now)

    def _fired(self, alert: Alert, now: Millis, view: MuteView) -> None:
        for route in self._routing.match(alert.labels):
            receivers = self.plan.integrations.get(route.receiver)
            if not receivers:
                continue
            key = self._routing.group_key(route, alert.labels)
            resends = self.plan.resends
            group = self._ledger.open(key, route, alert.labels, receivers, resends)
            heard = not view.by(route, alert)
            if not heard:
                self._withheld[key] = None
            member = self._ledger.member(group, alert, heard=heard)
            groups.fired(group, member, now)
            self._ledger.note(group, member)
        for group, member in self._ledger.homes(alert.labels):
            if not member.belongs:
                again = member._replace(alert=alert)
                groups.fired(group, again, now)
                self._ledger.note(group, again)

    def _resolved(self, alert: Alert, now: Millis, view: MuteView) -> None:
        for group, known in self._ledger.homes(alert.labels):
            if not known.fires:
                continue
            hears = known.heard or (known.belongs and not self._by(group, alert, view))
            member = known._replace(alert=alert, heard=hears)
            groups.resolved(group, member, now)
            self._ledger.note(group, member)
            self._without_ends(group)
            if not group.known(member):
                self._ledger.forget(group, groups.finished(group, [member], now))

    def _without_ends(self, group: Group) -> None:
        for name in self.plan.without_ends.intersection(group.lanes):
            group.lanes[name] = groups.without_resolves(group, group.lanes[name])

    def _by(self, group: Group, alert: Alert, view: MuteView) -> Muting:
        route = self._routes.get(group.route)
        return view.by(route, alert) if route else view.alert(alert)

    # Time passes.

    def tick(self, now: Millis) -> None:
        """Looks again at what is muted and at what is refused; to be called every few seconds."""
        self.mutes.inhibitor.forget(now)
        self.mutes.silences.forget(now)
        view = self.mutes.at(now)
        for key in tuple(self._withheld):
            group = self._ledger.groups.get(key)
            if group is None or not self._look_again(group, now, view):
                self._withheld.pop(key, None)
        for group in tuple(self._ledger.groups.values()):
            if any(lane.attempts for lane in group.lanes.values()):
                self._settle(group, now)

    def _look_again(self, group: Group, now: Millis, view: MuteView) -> bool:
        """Whether members are still withheld."""
        withheld = False
        for member in tuple(group.members.values()):
            if member.heard or not member.belongs or not member.fires:
                continue
            if self._by(group, member.alert, view):
                withheld = True
            else:
                again = member._replace(heard=True)
                groups.fired(group, again, now)
                self._ledger.note(group, again)
        return withheld

    def shift(self, span: Millis) -> None:
        """The wall clock was set by `span`: waits go on as if it had not been."""
        self.mutes.inhibitor.shift(span)
        for group in self._ledger.groups.values():
            for name, lane in group.lanes.items():
                group.lanes[name] = lanes.shifted(lane, span)
            self._ledger.note(group)

    # Deliveries.

    def draft(self, receiver: str, key: str, now: Millis) -> Draft | None:
        """What to tell on a lane now, and from here on as if it were on its way."""
        group = self._ledger.groups.get(key)
        lane = group.lanes.get(receiver) if group else None
        if group is None or lane is None:
            return None
        self._ledger.touch(group)
        at = groups.due(group, lane, now)
        if at is None or at > now:
            return None
        view = self.mutes.at(now)
        self._mute(group, view)
        draft = groups.decide(
            group,
            lane,
            now,
            lambda alert: bool(self._by(group, alert, view)),
            send_resolved=receiver not in self.plan.without_ends,
        )
        lane = lanes.settled(lane, now) if draft is None else lanes.sending(lane, draft)
        group.lanes[receiver] = lane
        self._ledger.note(group)
        if draft is None:
            self._settle(group, now)
        return draft

    def _mute(self, group: Group, view: MuteView) -> None:
        """What has been muted since it fired, and was told to nobody, is withheld."""
        for member in tuple(group.members.values()):
            if not (member.to_tell and member.fires) or group.known(member):
                continue
            if self._by(group, member.alert, view):
                muted = member._replace(heard=False)
                group.members[member.alert.labels] = muted
                self._withheld[group.key] = None
                self._ledger.note(group, muted)

    def delivered(self, key: str, draft: Draft, receipt: Receipt, now: Millis) -> None:
        """The receiver has taken a draft."""
        group, lane = self._lane(key, draft)
        if group is not None and lane is not None:
            wants_ends = draft.receiver not in self.plan.without_ends
            group.lanes[draft.receiver] = groups.delivered(
                group, lane, draft, receipt, now, send_resolved=wants_ends
            )
            self._ledger.note(group)
            self._settle(group, now)

    def failed(
        self, key: str, draft: Draft, now: Millis, wait: Millis, *, maybe_delivered: bool
    ) -> None:
        """The receiver has not, or not certainly; another attempt is due after `wait`."""
        group, lane = self._lane(key, draft)
        if group is not None and lane is not None:
            group.lanes[draft.receiver] = lanes.failed(
                lane, draft, now, wait, maybe_delivered=maybe_delivered
            )
            self._ledger.note(group)

    def _lane(self, key: str, draft: Draft) -> tuple[Group | None, Lane | None]:
        group = self._ledger.groups.get(key)
        return group, group.lanes.get(draft.receiver) if group else None

    def _settle(self, group: Group, now: Millis) -> None:
        """Lets go of what has ended and nobody is left to be told of."""
        done = groups.finished(group, group.members.values(), now)
        if done or not group.members:
            self.given_up += groups.abandoned(group, done)
            self._ledger.forget(group, done)

    def hurry(self) -> None:
        """What waits for its time is due now: the process is about to end."""
        for group in self._ledger.groups.values():
            for name, lane in group.lanes.items():
                group.lanes[name] = lanes.hurried(lane, group.timing)
            self._ledger.touch(group)

    # Another process, another configuration.

    def restore(self, saved: Saved, alerts: Iterable[Alert], now: Millis) -> None:
        """Goes on from what an earlier process saved; `alerts` are all that the rules have now."""
        self._ledger.load(saved)
        standing = {alert.labels: alert for alert in alerts}
        for group in self._ledger.groups.values():
            for name, lane in group.lanes.items():
                group.lanes[name] = lanes.interrupted(lane, now)
        self.rearrange(self.plan, self.mutes, standing.values(), now)
        view = self.mutes.at(now)
        for group in tuple(self._ledger.groups.values()):
            for member in tuple(group.members.values()):
                alert = standing.get(member.alert.labels)
                if member.fires and (alert is None or alert.state is not AlertState.FIRING):
                    self._resolved(_ended(alert, member.alert, now), now, view)
            self._settle(group, now)

    def rearrange(self, plan: Plan, mutes: Mutes, alerts: Iterable[Alert], now: Millis) -> None:
        """Another configuration: alerts that fire find their groups anew, ends are still told."""
        self._set_up(plan, mutes)
        firing = [alert for alert in alerts if alert.state is AlertState.FIRING]
        for alert in firing:
            mutes.inhibitor.fires(alert.labels)
        known = {name for names in plan.integrations.values() for name in names}
        owed: dict[Labels, Alert] = {}
        for group in tuple(self._ledger.groups.values()):
            owed |= {each.labels: each for each in groups.untold(group)}
            self._rearrange(group, known, now)
        view = mutes.at(now)
        for alert in firing:
            if not self._is_home(alert.labels):
                self._fired(alert, now, view)
        for alert in owed.values():
            # It is over, nobody has heard of it, and whoever should have is another now.
            if not self._is_home(alert.labels):
                self._fired(replace(alert, resolved_at=None), now, view)
                self._resolved(alert, now, view)
        self._withheld = dict.fromkeys(self._ledger.groups)

    def _rearrange(self, group: Group, known: Iterable[str], now: Millis) -> None:
        for labels, member in group.members.items():
            belongs = group.key in self._keys(labels)
            if belongs is not member.belongs:
                group.members[labels] = member._replace(belongs=belongs)
                self._ledger.note(group, group.members[labels])
        group.resends = self.plan.resends
        route = self._routes.get(group.route)
        told: tuple[str, ...] = ()
        if route is not None:
            group.timing = route.timing
            if any(member.belongs for member in group.members.values()):
                told = self.plan.integrations.get(route.receiver, ())
        for name in groups.regroup_lanes(group, told, known, now):
            _LOG.warning("%s is gone: it does not hear how %s ends", name, group.key)
        self._ledger.note(group)
        self._settle(group, now)

    def _keys(self, labels: Labels) -> set[str]:
        """The groups that an alert belongs to."""
        return {
            self._routing.group_key(route, labels)
            for route in self._routing.match(labels)
            if self.plan.integrations.get(route.receiver)
        }

    def _is_home(self, labels: Labels) -> bool:
        """Whether an alert is in every group that it belongs to."""
        return self._keys(labels) <= {g.key for g, m in self._ledger.homes(labels) if m.belongs}


def _ended(alert: Alert | None, known: Alert, now: Millis) -> Alert:
    """An alert that a group has firing and the rules have not."""
    if alert is not None and alert.state is AlertState.RESOLVED:
        return alert
    return replace(known, resolved_at=now)
