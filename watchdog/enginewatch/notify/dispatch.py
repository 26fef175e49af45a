"""Which alerts are told together, and in what order they leave.

Alerts that change in one evaluation and share `GROUP_BY` make one notification.
Each receiver has a queue and a worker of its own: a slow one delays nobody else,
and for one receiver the order of events is kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_never,
    wait_exponential_jitter,
)

from enginewatch.model import Alert, Labels
from enginewatch.notify.message import DeliveryError, Notification, Receiver

log = logging.getLogger(__name__)

GROUP_BY: Final = ("deployment", "verdict")
"""One notification per deployment and hazard: nobody wants a page per GPU."""


def group(alerts: Iterable[Alert], receiver: str, external_url: str) -> list[Notification]:
    """The notifications that tell `receiver` of these alerts, in order of first appearance."""
    groups: dict[Labels, list[Alert]] = {}
    for alert in alerts:
        groups.setdefault(alert.labels.only(GROUP_BY), []).append(alert)
    return [
        Notification(receiver, f"{{}}:{labels!r}", labels, tuple(members), external_url)
        for labels, members in groups.items()
    ]


class Counts(NamedTuple):
    """Notifications of one receiver."""

    delivered: int
    failed: int
    pending: int


class Dispatcher:
    """Hands alerts to receivers; `run` must be running for anything to leave."""

    def __init__(self, receivers: Sequence[Receiver], external_url: str = ""):
        self._receivers = tuple(receivers)
        self._external_url = external_url
        self._queues: dict[str, asyncio.Queue[Notification]] = {
            receiver.name: asyncio.Queue() for receiver in receivers
        }
        self._delivered: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()

    def offer(self, alerts: Sequence[Alert]) -> None:
        """Queue firing and resolved alerts for every receiver that wants them."""
        for receiver in self._receivers:
            for notification in group(alerts, receiver.name, self._external_url):
                if notification.firing or receiver.send_resolved:
                    self._queues[receiver.name].put_nowait(notification)

    def counts(self) -> dict[str, Counts]:
        """By receiver."""
        return {
            name: Counts(self._delivered[name], self._failed[name], queue.qsize())
            for name, queue in self._queues.items()
        }

    async def run(self) -> None:
        """Deliver until cancelled."""
        async with asyncio.TaskGroup() as workers:
            for receiver in self._receivers:
                workers.create_task(self._work(receiver), name=f"deliver to {receiver.name}")

    async def drain(self, seconds: float) -> int:
        """Wait until everything queued has left; the number still undelivered after `seconds`."""
        waiting = [asyncio.ensure_future(queue.join()) for queue in self._queues.values()]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=seconds)
            for task in late:
                task.cancel()
        return sum(queue.qsize() for queue in self._queues.values())

    async def _work(self, receiver: Receiver) -> None:
        queue = self._queues[receiver.name]
        while True:
            notification = await queue.get()
            try:
                await self._deliver(receiver, notification)
                self._delivered[receiver.name] += 1
            except DeliveryError as final:
                self._failed[receiver.name] += 1
                log.error("gave up a notification: %s", final)
            finally:
                queue.task_done()

    async def _deliver(self, receiver: Receiver, notification: Notification) -> None:
        attempts = AsyncRetrying(
            retry=retry_if_exception(lambda e: isinstance(e, DeliveryError) and e.retryable),
            wait=_wait,
            stop=stop_never,
            before_sleep=_tell,
            reraise=True,
        )
        async for attempt in attempts:
            with attempt:
                await receiver.send(notification)


_backoff = wait_exponential_jitter(initial=1, max=60, jitter=1)


def _wait(state: RetryCallState) -> float:
    """Exponential with jitter, and never sooner than the provider asked for."""
    failure = state.outcome.exception() if state.outcome else None
    asked = failure.retry_after if isinstance(failure, DeliveryError) else None
    return max(_backoff(state), (asked or 0) / 1000)


def _tell(state: RetryCallState) -> None:
    failure = state.outcome.exception() if state.outcome else None
    if state.attempt_number == 1:  # once a notification: the cause rarely changes between attempts
        log.warning("a notification waits for another attempt: %s", failure)
