"""Any order of events, refusals, lost answers and crashes: nothing is lost, nothing invented.

Receivers are modelled as providers see us: an alert is open between a
notification that has it firing and one that has it resolved.
"""

from __future__ import annotations

from collections import defaultdict

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.support.pages import HOUR, MINUTE, SECOND, Told, World, alert, told

from enginewatch.config import parse_matchers
from enginewatch.notify.group import GIVE_UP_AFTER
from enginewatch.notify.message import Receipt
from enginewatch.notify.silence import Silence, SilenceState, silenced_by

CONFIG = """
receivers:
  - {name: hook, webhook_configs: [{url: 'http://x'}]}
  - {name: other, webhook_configs: [{url: 'http://y'}]}
inhibit_rules: []
"""
SPLIT = CONFIG + "route: {receiver: hook, group_by: [alertname]}\n"
NAMES = ("A", "B", "C")
OUTCOMES = ("taken", "refused", "answer lost", "request lost", "crash after", "crash before")


class Providers:
    """What each receiver thinks of each alert, by group."""

    def __init__(self) -> None:
        self.open: set[tuple[str, str, str]] = set()
        self.maybe: set[tuple[str, str, str]] = set()
        self.ended: set[tuple[str, str, str]] = set()
        self.pairs: dict[tuple[str, str], int] = defaultdict(int)

    def hear(self, message: Told, group: str) -> None:
        receiver = message.receiver
        for name in message.resolved:
            known = (receiver, group, name)
            again = message.doubt and known in self.ended
            assert again or known in self.open | self.maybe, f"{receiver} never heard of {name}"
            if known in self.open:
                self.open.discard(known)
                self.ended.add(known)
                self.pairs[receiver, name] += 1
        self.open |= {(receiver, group, name) for name in message.firing}


class Deliveries(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.world = World(CONFIG)
        self.providers = Providers()
        self.owed: set[str] = set()

    @rule(name=st.sampled_from(NAMES))
    def fire(self, name: str) -> None:
        one = alert(name, self.world.now)
        if one.labels not in self.world.firing:
            self.world.fire(one)
            if not silenced_by(self.world.silences.active(self.world.now), one.labels):
                self.owed.add(name)
            else:
                self.owed.discard(name)

    @rule(name=st.sampled_from(NAMES))
    def resolve(self, name: str) -> None:
        for one in list(self.world.firing.values()):
            if one.name == name:
                self.world.resolve(one)

    @rule(name=st.sampled_from(NAMES))
    def silence(self, name: str) -> None:
        matchers = parse_matchers(f"alertname={name}")
        now = self.world.now
        self.world.silences.put(Silence(matchers, now, now + HOUR, "me", "x"), now)
        self.world.look()
        self.owed.discard(name)  # whether it is still told depends on what comes first

    @rule()
    def unsilence(self) -> None:
        for one in self.world.silences.all():
            if one.state(self.world.now) is not SilenceState.EXPIRED:
                self.world.silences.expire(one.id, self.world.now)

    @rule(span=st.sampled_from([100, SECOND, 5 * SECOND, 31 * SECOND, 5 * HOUR]))
    def wait(self, span: int) -> None:
        """Time passes, but nothing is attempted meanwhile."""
        self.world.now += span
        self.world.pipeline.tick(self.world.now)
        self.world.look()

    @rule(outcome=st.sampled_from(OUTCOMES), which=st.integers(0, 5))
    def attempt(self, outcome: str, which: int) -> None:
        world = self.world
        due = [key for key, at in world.dues.items() if at <= world.now]
        if due:
            self.one_attempt(*due[which % len(due)], outcome)

    def one_attempt(self, receiver: str, group: str, outcome: str) -> None:
        world = self.world
        del world.dues[receiver, group]
        draft = world.pipeline.draft(receiver, group, world.now)
        if draft is None:
            world.look()
            return
        world.look()  # saved before it is sent
        message = told(draft)
        if outcome in ("taken", "answer lost", "crash after"):
            self.providers.hear(message, group)
        else:
            self.providers.maybe |= {(receiver, group, name) for name in message.firing}
        if outcome == "taken":
            world.pipeline.delivered(group, draft, Receipt(), world.now)
        elif outcome in ("refused", "answer lost", "request lost"):
            lost = outcome != "refused"
            world.pipeline.failed(group, draft, world.now, SECOND, maybe_delivered=lost)
        else:
            world.restart()
        world.look()

    @rule()
    def crash(self) -> None:
        self.world.restart()

    @rule(config=st.sampled_from([CONFIG, SPLIT]))
    def reload(self, config: str) -> None:
        self.world.reload(config)

    @rule(step=st.sampled_from([-HOUR, HOUR]))
    def set_clock(self, step: int) -> None:
        self.world.now += step
        self.world.pipeline.shift(step)
        self.world.dues.clear()
        self.world.look()

    @invariant()
    def what_is_open_is_known(self) -> None:
        """A provider that has an alert open is one that the pipeline would still resolve."""
        if not hasattr(self, "world"):
            return
        groups = {group.key: group for group in self.world.pipeline.groups()}
        for receiver, key, name in self.providers.open:
            names = {member.alert.name for member in groups[key].members.values()}
            assert name in names, f"{receiver} will never hear how {name} ended"
            assert receiver in groups[key].lanes

    def teardown(self) -> None:
        """Once all works and all has ended, everybody has heard everything."""
        if not hasattr(self, "world"):
            return
        self.unsilence()
        self.settle()
        for receiver, _, name in self.providers.open:
            assert name in {one.name for one in self.world.firing.values()}, (receiver, name)
        for name in self.owed:
            told_to = {r for r, _, n in self.providers.open if n == name}
            told_to |= {r for (r, n), count in self.providers.pairs.items() if n == name and count}
            assert told_to, f"nobody heard of {name}"
        self.check_that_what_fires_is_open()
        for one in list(self.world.firing.values()):
            self.world.resolve(one)
        self.settle()
        assert not self.providers.open
        assert not list(self.world.pipeline.groups())

    def check_that_what_fires_is_open(self) -> None:
        """Also when it fired again after an end of which nobody knows whether it was told."""
        for group in self.world.pipeline.groups():
            for member in group.members.values():
                for lane in group.lanes.values():
                    if member.fires and member.to_tell and lane.open:
                        known = (lane.receiver, group.key, member.alert.name)
                        assert known in self.providers.open, f"{known} fires, and is not open"

    def settle(self) -> None:
        world = self.world
        until = world.now + 10 * MINUTE
        assert 10 * MINUTE < GIVE_UP_AFTER
        while world.now < until:
            for (receiver, group), at in list(world.dues.items()):
                if at <= world.now and (receiver, group) in world.dues:
                    self.one_attempt(receiver, group, "taken")
            world.now += SECOND
            world.pipeline.tick(world.now)
            world.look()


TestDeliveries = Deliveries.TestCase
TestDeliveries.settings = settings(deadline=None, max_examples=60, stateful_step_count=30)
