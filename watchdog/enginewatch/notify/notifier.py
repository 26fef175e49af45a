"""The notifications' side of the daemon: alerts in, couriers out, everything written down between.

All of it runs in the event loop's thread. Receivers come and go with the
configuration; what they have been told stays.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple, Protocol

from enginewatch.config import Config
from enginewatch.model import Alert, AlertState, Labels, Millis, freeze
from enginewatch.notify.deliver import Outgoing
from enginewatch.notify.fleet import Fleet
from enginewatch.notify.group import Group
from enginewatch.notify.inhibit import Inhibitor, inhibit_rules
from enginewatch.notify.lane import Draft, Member
from enginewatch.notify.ledger import Changes, Saved
from enginewatch.notify.message import DeliveryError, Notification, Reason, Receipt, Receiver
from enginewatch.notify.mute import Mutes, Muting
from enginewatch.notify.outbox import Entry, EntryState
from enginewatch.notify.pipeline import Pipeline, Plan
from enginewatch.notify.route import integrations, resends, route_tree
from enginewatch.notify.silence import Silences
from enginewatch.notify.tally import Tally
from enginewatch.notify.throttle import wait_of
from enginewatch.units import format_duration

_LOG: Final = logging.getLogger(__name__)

REMEMBERED: Final = 2_000
"""Notifications of which it is still known how they fared, for the pages of alerts."""

UNHEARD: Final[Millis] = 300_000
"""A receiver that has not taken what it is owed for so long counts as gone."""

CLOCK_STEP: Final[Millis] = 2_000
"""The wall clock may run off the other one by so much before it counts as set."""

_EVIDENCE: Final = "evidence"
"""The annotation that the daemon adds when an incident begins."""


class Keep(Protocol):
    """Where state is written down (`keeper.Keeper`)."""

    def put(self, changes: Changes, entries: Iterable[Entry] = ()) -> None: ...

    async def commit(self) -> bool: ...


class Setup(NamedTuple):
    """What a configuration says of notifications; receivers by the integrations' names."""

    plan: Plan
    mutes: Callable[[Silences], Mutes]
    receivers: Mapping[str, Receiver]
    external_url: str


def set_up(config: Config, receivers: Iterable[Receiver], external_url: str) -> Setup:
    """Raises ConfigError or RulePackError where the shipped inhibitions can't be read."""
    by_name = {receiver.name: receiver for receiver in receivers}
    without_ends = frozenset(n for n, receiver in by_name.items() if not receiver.send_resolved)
    rules = inhibit_rules(config)
    intervals = {interval.name: interval for interval in config.all_time_intervals}
    return Setup(
        Plan(route_tree(config), integrations(config), without_ends, resends(config)),
        lambda silences: Mutes(silences, Inhibitor(rules), intervals),
        by_name,
        external_url,
    )


class Step(NamedTuple):
    """When the wall clock was last set, by its new time, and by how much; 0: it was not."""

    at: Millis
    span: Millis


NO_STEP: Final = Step(0, 0)


class Notifier:
    """`run` must have been called for anything to leave.

    `current` gives the alerts as the rules have them: what is told is as of then,
    and not of when an alert began. `wall` may be set while this runs, `steady` never is.
    """

    def __init__(
        self,
        setup: Setup,
        keep: Keep,
        wall: Callable[[], Millis],
        current: Callable[[], Iterable[Alert]],
        *,
        steady: Callable[[], Millis],
    ):
        self._setup = setup
        self._keep: Final = keep
        self._wall: Final = wall
        self._steady: Final = steady
        self._ahead: Millis = wall() - steady()
        self._current: Final = current
        self._shown: dict[Labels, Alert] | None = None
        self.step = NO_STEP
        self._silences = Silences()
        self.pipeline: Final = Pipeline(setup.plan, setup.mutes(self._silences))
        self.tally: Final = Tally()
        self._fleet: Final = Fleet(self, self._clock)
        self._fleet.follow(setup.receivers)
        self._drafts: Final[dict[tuple[str, str], tuple[Draft, Entry]]] = {}
        self._record: Final[OrderedDict[str, Entry]] = OrderedDict()

    @property
    def external_url(self) -> str:
        return self._setup.external_url

    @property
    def silences(self) -> Silences:
        """All of them, as they are by the clock as it is."""
        self._clock()
        return self._silences

    def muting(self, alert: Alert, now: Millis) -> Muting:
        """Why an alert is not told of now."""
        self._clock()
        return self.pipeline.muting(alert, now)

    # Life.

    def restore(self, saved: Saved, entries: Iterable[Entry], now: Millis) -> None:
        """Goes on from an earlier process, before anything was taken."""
        self._silences = Silences(saved.silences)
        self.pipeline.mutes = self._setup.mutes(self._silences)
        self._record.update((entry.id, entry) for entry in entries)
        self.pipeline.restore(saved, self._current(), now)
        self._changed(now)

    def run(self) -> None:
        """Notifications leave from now on."""
        self._fleet.start()

    def reconfigure(self, setup: Setup, now: Millis) -> None:
        """Another configuration; what has been told before is remembered."""
        self._setup = setup
        self._fleet.follow(setup.receivers)
        self.pipeline.rearrange(setup.plan, setup.mutes(self._silences), self._current(), now)
        self._changed(now)

    async def drain(self, seconds: float) -> int:
        """Send what waits for its time, at most for so long; gives how much is left to tell."""
        self.pipeline.hurry()
        self._changed(self._clock())
        await self._fleet.settle(seconds)
        self.look(self._clock())
        await self._fleet.stop()
        return sum(standing.pending for standing in self.tally.standings.values())

    # What happens.

    def take(self, alerts: Iterable[Alert], now: Millis) -> None:
        """Alerts that began to fire or resolved; whoever calls commits them with their states."""
        self._shown = None
        self._clock()
        self.pipeline.take(alerts, now)
        self._changed(now)

    def tick(self, now: Millis) -> None:
        """Time has passed: to be called every few seconds."""
        self._shown = None
        self._clock()
        self.pipeline.tick(now)
        self._changed(now)
        self.look(now)

    def _clock(self) -> Millis:
        """The wall clock's time. Nothing is judged by a clock that was set before all that waits
        has been moved along with it: an hour's step would make repetitions due otherwise."""
        now = self._wall()
        ahead, self._ahead = self._ahead, now - self._steady()
        if abs(self._ahead - ahead) > CLOCK_STEP:
            self._shift(self._ahead - ahead, now)
        return now

    def _shift(self, span: Millis, now: Millis) -> None:
        """The wall clock was set by `span`, and is at `now`."""
        _LOG.warning("the clock was set by %s", format_duration(span))
        self.step = Step(now, span)
        self._fleet.shift(span)
        self._silences.shift(span, now)
        self.pipeline.shift(span)
        self._changed(now)

    async def keep_silences(self) -> bool:
        """Silences have changed: whether they are on the disk now."""
        now = self._clock()
        self.pipeline.tick(now)
        self._changed(now)
        return await self._keep.commit()

    def _changed(self, now: Millis) -> None:
        self._keep.put(self.pipeline.changes())
        for receiver, group, at in self.pipeline.due(now):
            self._fleet.schedule(receiver, group, at)
        given_up, self.pipeline.given_up = self.pipeline.given_up, []
        for receiver in given_up:
            self.tally.given_up(receiver)
            _LOG.error("%s: gave up a notification that it never took", receiver)

    # For couriers.

    async def hand_out(self, receiver: str, group: str) -> Outgoing | None:
        now = self._clock()
        draft = self.pipeline.draft(receiver, group, now)
        found = self.pipeline.group(group)
        if draft is None or found is None:
            self._changed(now)
            return None
        notification = self._notification(found, draft)
        entry = Entry(
            notification.id,
            receiver,
            group,
            draft.reason.value,
            len(draft.firing),
            len(draft.resolved),
            now,
            EntryState.SENDING,
            draft.before.attempts + 1,
            now,
        )
        self._drafts[receiver, group] = draft, entry
        if not _is_routine(draft):
            self._write(entry)
        self._changed(now)
        await self._keep.commit()
        return Outgoing(notification, draft.before.receipt)

    async def delivered(self, receiver: str, group: str, receipt: Receipt) -> None:
        now = self._clock()
        draft, entry = self._drafts.pop((receiver, group))
        self.pipeline.delivered(group, draft, receipt, now)
        if not _is_routine(draft):
            taken = entry._replace(state=EntryState.DELIVERED, changed_at=now)
            self._write(taken._replace(detail=receipt.detail))
        if draft.before.attempts:
            _LOG.info("%s took it at attempt %d", receiver, entry.attempts)
        self._changed(now)
        await self._keep.commit()
        self.tally.delivered(receiver, now)

    async def failed(self, receiver: str, group: str, failure: DeliveryError) -> None:
        now = self._clock()
        draft, entry = self._drafts.pop((receiver, group))
        wait = wait_of(failure, entry.attempts)
        self.pipeline.failed(group, draft, now, wait, maybe_delivered=failure.maybe_delivered)
        self.tally.failed(receiver, failure)
        state = EntryState.WAITING if failure.retryable else EntryState.FAILED
        self._write(entry._replace(state=state, changed_at=now, detail=str(failure)))
        if not failure.retryable:
            _LOG.error("refused, and tried anew in %s: %s", format_duration(wait), failure)
        elif entry.attempts == 1:  # once: the cause rarely changes between attempts
            _LOG.warning("a notification waits for another attempt: %s", failure)
        self._changed(now)
        await self._keep.commit()

    def _write(self, entry: Entry) -> None:
        self._keep.put(Changes(), [entry])
        self._record[entry.id] = entry
        self._record.move_to_end(entry.id)
        while len(self._record) > REMEMBERED:
            self._record.popitem(last=False)

    def _notification(self, group: Group, draft: Draft) -> Notification:
        alerts = (*map(self._as_it_stands, draft.firing), *(m.alert for m in draft.resolved))
        return Notification(
            draft.receiver,
            group.key,
            group.labels,
            alerts,
            self._setup.external_url,
            draft.reason,
            draft.at,
            _id(group.key, draft),
            maybe_repeat=draft.before.doubt,
        )

    def _as_it_stands(self, member: Member) -> Alert:
        """The alert with today's value and annotations, if it is still the same incident; with the
        evidence that it began with, which rules do not know."""
        if self._shown is None:
            self._shown = {alert.labels: alert for alert in self._current()}
        now = self._shown.get(member.alert.labels)
        if now is None or now.state is not AlertState.FIRING:
            return member.alert
        if now.fired_at != member.alert.fired_at:
            return member.alert
        evidence = member.alert.annotations.get(_EVIDENCE)
        if evidence is None or _EVIDENCE in now.annotations:
            return now
        return replace(now, annotations=freeze({**now.annotations, _EVIDENCE: evidence}))

    # How it goes.

    def look(self, now: Millis) -> None:
        """Brings the tally up to date."""
        self.tally.look(self._fleet.names, self.pipeline.groups(), now)

    def ailment(self, now: Millis) -> str | None:
        """Why notifications don't leave although nothing outside keeps them, or None."""
        stalled = self._fleet.stalled(now)
        return f"nothing leaves for {', '.join(stalled)}" if stalled else None

    def unheard(self) -> str | None:
        """Why nobody would hear of an alert now, or None: every receiver is gone."""
        standings = self.tally.standings
        gone = [name for name, each in standings.items() if each.owed_for > UNHEARD]
        return f"no receiver answers: {', '.join(gone)}" if gone == [*standings] != [] else None

    def entries(self, groups: Iterable[str]) -> list[Entry]:
        """What is remembered of notifications of these groups, oldest first."""
        wanted = set(groups)
        return [entry for entry in self._record.values() if entry.group_key in wanted]


def _is_routine(draft: Draft) -> bool:
    """Whether it would only fill the record: every minute the same, and nobody reads it."""
    return draft.reason is Reason.RESEND and not draft.before.attempts


def _id(group_key: str, draft: Draft) -> str:
    """The same at each attempt at the same notification, in any process."""
    told = [draft.receiver, group_key, draft.before.delivered_at, *draft.same_as]
    return hashlib.blake2b(json.dumps(told).encode(), digest_size=16).hexdigest()
