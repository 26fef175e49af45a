"""A pipeline with receivers that remember: time is an argument, and nothing is sent anywhere."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from enginewatch.config import parse_config, parse_matchers
from enginewatch.model import Alert, Labels, Millis
from enginewatch.notify.inhibit import Inhibitor, inhibit_rules
from enginewatch.notify.lane import Draft
from enginewatch.notify.ledger import Changes, Saved
from enginewatch.notify.message import Receipt
from enginewatch.notify.mute import Mutes
from enginewatch.notify.pipeline import Pipeline, Plan
from enginewatch.notify.route import integrations, resends, route_tree
from enginewatch.notify.silence import Silence, Silences

SECOND: Final[Millis] = 1_000
MINUTE: Final[Millis] = 60_000
HOUR: Final[Millis] = 3_600_000
START: Final[Millis] = 1_000_000 * HOUR

ONE_HOOK: Final = "receivers: [{name: hook, webhook_configs: [{url: 'http://x'}]}]\n"
HOOK: Final = "hook/webhook[0]"


def alert(name: str = "A", at: Millis = START, **labels: str) -> Alert:
    """An alert that began to fire at `at`."""
    plain = {"alertname": name, "deployment": "chat", "verdict": "v", **labels}
    return Alert(Labels(plain), {"summary": name}, 1.0, at, at)


def ended(firing: Alert, at: Millis) -> Alert:
    return replace(firing, resolved_at=at)


@dataclass
class Told:
    """A notification as its receiver had it."""

    at: Millis
    receiver: str
    reason: str
    firing: list[str]
    resolved: list[str]
    doubt: bool


def told(draft: Draft) -> Told:
    return Told(
        draft.at,
        draft.receiver,
        draft.reason.value,
        sorted(member.alert.name for member in draft.firing),
        sorted(member.alert.name for member in draft.resolved),
        draft.before.doubt,
    )


@dataclass
class World:
    """A pipeline and a clock; `heard` is what receivers took, in order."""

    config: str = ONE_HOOK
    now: Millis = START
    heard: list[Told] = field(default_factory=list)
    firing: dict[Labels, Alert] = field(default_factory=dict)
    refuse: bool = False
    without_ends: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.silences = Silences()
        self.pipeline = Pipeline(self.plan(), self.mutes())
        self.saved = Changes()
        self.dues: dict[tuple[str, str], Millis] = {}

    def plan(self) -> Plan:
        config = parse_config(self.config, Path("e.yml"))
        return Plan(route_tree(config), integrations(config), self.without_ends, resends(config))

    def mutes(self) -> Mutes:
        config = parse_config(self.config, Path("e.yml"))
        intervals = {each.name: each for each in config.all_time_intervals}
        return Mutes(self.silences, Inhibitor(inhibit_rules(config)), intervals)

    def fire(self, *alerts: Alert) -> None:
        self.firing |= {each.labels: each for each in alerts}
        self.take(alerts)

    def resolve(self, *alerts: Alert) -> None:
        for each in alerts:
            self.firing.pop(each.labels, None)
        self.take([ended(each, self.now) for each in alerts])

    def take(self, alerts: Iterable[Alert]) -> None:
        self.pipeline.take(alerts, self.now)
        self.look()

    def look(self) -> None:
        self.saved.update(self.pipeline.changes())
        for receiver, group, at in self.pipeline.due(self.now):
            if at is None:
                self.dues.pop((receiver, group), None)
            else:
                self.dues[receiver, group] = at

    def run(self, span: Millis) -> list[Told]:
        """Let time pass, with a look at mutes every 5 s; gives what was heard meanwhile."""
        before, end = len(self.heard), self.now + span
        while True:
            soonest = min(self.dues.values(), default=end + 1)
            tick = (self.now // (5 * SECOND) + 1) * 5 * SECOND
            step = min(max(soonest, self.now), tick)
            if step > end:
                break
            self.now = step
            if step == tick:
                self.pipeline.tick(step)
                self.look()
            for (receiver, group), at in list(self.dues.items()):
                if at <= self.now:
                    del self.dues[receiver, group]
                    self.attempt(receiver, group)
        self.now = end
        return self.heard[before:]

    def attempt(self, receiver: str, group: str) -> None:
        draft = self.pipeline.draft(receiver, group, self.now)
        if draft is not None:
            if self.refuse:
                self.pipeline.failed(group, draft, self.now, 10 * SECOND, maybe_delivered=False)
            else:
                self.heard.append(told(draft))
                self.pipeline.delivered(group, draft, Receipt(), self.now)
        self.look()

    def attempt_without_answer(self, *, crash: bool, taken: bool) -> None:
        """The one attempt that is due, after which the process is killed, or no answer comes.

        `taken` False is an answer that it was not taken, where a crash leaves that open.
        """
        (((receiver, group), at),) = self.dues.items()
        assert at <= self.now
        del self.dues[receiver, group]
        draft = self.pipeline.draft(receiver, group, self.now)
        assert draft is not None
        self.look()  # saved before it is sent
        if crash:
            self.restart()
        else:
            self.pipeline.failed(group, draft, self.now, SECOND, maybe_delivered=taken)
            self.look()

    def restart(self) -> None:
        """Another process goes on from what was saved."""
        saved = Saved(
            tuple(g for g in self.saved.groups.values() if g is not None),
            tuple(m for m in self.saved.members.values() if m is not None),
        )
        self.silences = Silences(s for s in self.saved.silences.values() if s is not None)
        self.dues = {}
        self.pipeline = Pipeline(self.plan(), self.mutes())
        self.pipeline.restore(saved, self.firing.values(), self.now)
        self.look()

    def reload(self, config: str) -> None:
        self.config = config
        self.pipeline.rearrange(self.plan(), self.mutes(), self.firing.values(), self.now)
        self.look()


def silence(world: World, name: str = "A", span: Millis = HOUR) -> Silence:
    matchers = parse_matchers(f"alertname={name}")
    given = Silence(matchers, world.now, world.now + span, "me", "because")
    return world.silences.put(given, world.now)


def heard(world: World) -> list[tuple[int, str, str, str]]:
    """(seconds since the start, reason, firing, resolved) of all that was told."""
    return [
        ((t.at - START) // 1000, t.reason, "".join(t.firing), "".join(t.resolved))
        for t in world.heard
    ]
