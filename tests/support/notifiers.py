"""The notifications' side with receivers that remember, and a memory that can fail."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.pages import HOOK, START

from enginewatch.config import parse_config
from enginewatch.model import Alert, Millis, freeze
from enginewatch.notify.ledger import Changes, Saved
from enginewatch.notify.message import DeliveryError, FailureReason, Notification, Receipt
from enginewatch.notify.notifier import Notifier, set_up
from enginewatch.notify.outbox import Entry

QUICK = "route: {receiver: hook, group_wait: 0s, group_interval: 1ms}\n"
ONE = "receivers: [{name: hook, webhook_configs: [{url: 'http://x'}]}]\n" + QUICK
TWO = ONE.replace("]}]", "]}, {name: other, webhook_configs: [{url: 'http://y'}]}]")


@dataclass
class Recorder:
    name: str = HOOK
    send_resolved: bool = True
    pace: Millis = 0
    got: list[tuple[Notification, Receipt | None]] = field(default_factory=list)
    errors: list[DeliveryError] = field(default_factory=list)
    closed: bool = False
    hold: asyncio.Event | None = None

    async def send(self, notification: Notification, previous: Receipt | None = None) -> Receipt:
        self.got.append((notification, previous))
        if self.hold is not None:
            await self.hold.wait()
        if self.errors:
            raise self.errors.pop(0)
        return Receipt(freeze({"ts": str(len(self.got))}), "taken")

    async def close(self) -> None:
        self.closed = True

    @property
    def reasons(self) -> list[str]:
        return [notification.reason.value for notification, _ in self.got]


class Memory:
    """A keeper whose disk is a dictionary: what was put is on it once it has been committed."""

    def __init__(self) -> None:
        self.changes = Changes()
        self.entries: dict[str, Entry] = {}
        self.works = True
        self.commits = 0
        self._put: list[tuple[Changes, tuple[Entry, ...]]] = []

    def put(self, changes: Changes, entries: Iterable[Entry] = ()) -> None:
        self._put.append((changes, tuple(entries)))

    async def commit(self) -> bool:
        self.commits += 1
        await asyncio.sleep(0)
        if self.works:
            put, self._put = self._put, []
            for changes, entries in put:
                self.changes.update(changes)
                self.entries |= {entry.id: entry for entry in entries}
        return self.works

    def saved(self) -> Saved:
        return Saved(
            tuple(g for g in self.changes.groups.values() if g),
            tuple(m for m in self.changes.members.values() if m),
            tuple(s for s in self.changes.silences.values() if s),
        )


class Scene:
    def __init__(self, *receivers: Recorder, config: str = ONE):
        self.receivers = receivers or (Recorder(),)
        self.memory = Memory()
        self.now: Millis = START
        self.set_by: Millis = 0
        self.alerts: dict[object, Alert] = {}
        self.notifier = self.new_notifier(config)

    def new_notifier(self, config: str = ONE) -> Notifier:
        setup = set_up(parse_config(config, Path("e.yml")), self.receivers, "http://watch")
        return Notifier(
            setup,
            self.memory,
            lambda: self.now,
            lambda: self.alerts.values(),
            steady=lambda: self.now - self.set_by,
        )

    def take(self, *alerts: Alert) -> None:
        self.alerts |= {each.labels: each for each in alerts}
        self.notifier.take(alerts, self.now)

    def later(self, span: Millis) -> None:
        self.now += span
        self._wake()

    def set_clock(self, span: Millis) -> None:
        """The wall clock, and no other, by `span`."""
        self.now += span
        self.set_by += span
        self._wake()

    def _wake(self) -> None:
        for courier in self.notifier._fleet._couriers.values():
            courier._news.set()

    @property
    def got(self) -> list[tuple[Notification, Receipt | None]]:
        return self.receivers[0].got


def play(scene: Scene, act: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        scene.notifier.run()
        try:
            await act()
        finally:
            await scene.notifier.drain(0.2)

    asyncio.run(main())


async def until(done: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not done():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def refused(*, maybe: bool = False) -> DeliveryError:
    return DeliveryError(
        "answered 403",
        where=HOOK,
        retryable=False,
        reason=FailureReason.REJECTED,
        maybe_delivered=maybe,
    )


def down(*, maybe: bool = False) -> DeliveryError:
    return DeliveryError(
        "timed out",
        where=HOOK,
        retryable=True,
        reason=FailureReason.TIMEOUT,
        maybe_delivered=maybe,
    )
