"""All groups, by key and by alert, and what of them has changed since somebody last asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from enginewatch.model import Alert, Labels, Millis
from enginewatch.notify import group as groups
from enginewatch.notify.group import Group, GroupState
from enginewatch.notify.lane import Lane, Member
from enginewatch.notify.route import Route
from enginewatch.notify.silence import Silence


@dataclass(slots=True)
class Changes:
    """What is not saved yet; None stands for what is gone. Members come with their group's key."""

    groups: dict[str, GroupState | None] = field(default_factory=dict)
    members: dict[int, tuple[str, Member] | None] = field(default_factory=dict)
    silences: dict[str, Silence | None] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.groups or self.members or self.silences)

    def update(self, later: Changes) -> None:
        """Takes in later ones, which win."""
        self.groups.update(later.groups)
        self.members.update(later.members)
        self.silences.update(later.silences)


class Saved(NamedTuple):
    """What an earlier process left."""

    groups: tuple[GroupState, ...] = ()
    members: tuple[tuple[str, Member], ...] = ()
    silences: tuple[Silence, ...] = ()


class Due(NamedTuple):
    """When to look at a lane; None when there is nothing to wait for."""

    receiver: str
    group: str
    at: Millis | None


class Ledger:
    """`groups` by key. Whoever changes a group or a member says so with `note`."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self._homes: dict[Labels, dict[str, None]] = {}
        self._dirty: dict[str, None] = {}
        self._touched: dict[str, None] = {}
        self._members: dict[int, tuple[str, Member] | None] = {}
        self._next_id = 1

    def load(self, saved: Saved) -> None:
        """Fills an empty ledger; members whose group is gone are left out."""
        for state in saved.groups:
            lanes = {lane.receiver: lane for lane in state.lanes}
            timing = groups.NO_TIMING
            self.groups[state.key] = Group(state.key, state.route, state.labels, timing, {}, lanes)
        for key, member in saved.members:
            if key in self.groups:
                self.groups[key].members[member.alert.labels] = member
                self._homes.setdefault(member.alert.labels, {})[key] = None
            self._next_id = max(self._next_id, member.id + 1)

    def open(
        self,
        key: str,
        route: Route,
        labels: Labels,
        receivers: Iterable[str],
        resends: Mapping[str, Millis],
    ) -> Group:
        """The group of a key, made if there is none."""
        group = self.groups.get(key)
        if group is None:
            lanes = {name: Lane(name) for name in receivers}
            group_labels = route.group_labels(labels)
            group = Group(key, route.key, group_labels, route.timing, {}, lanes, resends)
            self.groups[key] = group
        return group

    def homes(self, labels: Labels) -> Iterator[tuple[Group, Member]]:
        """The groups that have an alert, and it in them."""
        for key in tuple(self._homes.get(labels, ())):
            group = self.groups[key]
            yield group, group.members[labels]

    def member(self, group: Group, alert: Alert, *, heard: bool) -> Member:
        """An alert as a member that belongs; it keeps the id that it has there."""
        known = group.members.get(alert.labels)
        if known is None:
            self._next_id += 1
            self._homes.setdefault(alert.labels, {})[group.key] = None
        return Member(known.id if known else self._next_id - 1, alert, heard)

    def note(self, group: Group, *members: Member) -> None:
        """A group has changed, and these of its members."""
        self._dirty[group.key] = self._touched[group.key] = None
        for member in members:
            self._members[member.id] = (group.key, member)

    def touch(self, group: Group) -> None:
        """When to look at the group's lanes is to be told again."""
        self._touched[group.key] = None

    def forget(self, group: Group, members: Iterable[Member]) -> None:
        """Members leave; a group without any is no more."""
        members = list(members)
        groups.forget(group, members)
        for member in members:
            self._members[member.id] = None
            homes = self._homes[member.alert.labels]
            del homes[group.key]
            if not homes:
                del self._homes[member.alert.labels]
        if not group.members:
            self.groups.pop(group.key, None)
        if members or not group.members:
            self.note(group)

    def changes(self) -> Changes:
        """What has changed since the last call."""
        found = Changes(members=self._members)
        for key in self._dirty:
            group = self.groups.get(key)
            found.groups[key] = None if group is None else group.frozen()
        self._members, self._dirty = {}, {}
        return found

    def everything(self) -> Changes:
        """All there is, as if all of it had changed; what has changed is no more asked for."""
        self._members, self._dirty = {}, {}
        return Changes(
            {group.key: group.frozen() for group in self.groups.values()},
            {m.id: (g.key, m) for g in self.groups.values() for m in g.members.values()},
        )

    def due(self, now: Millis) -> list[Due]:
        """When to look at the lanes of groups that were touched since the last call."""
        found = []
        touched, self._touched = self._touched, {}
        for key in touched:
            group = self.groups.get(key)
            if group is not None:
                lanes = group.lanes.values()
                found += [Due(lane.receiver, key, groups.due(group, lane, now)) for lane in lanes]
        return found
