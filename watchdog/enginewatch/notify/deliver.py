"""Carries notifications to one receiver: groups at the same time, each group in order.

A courier keeps no notifications. It knows which lanes are due when, has each
drafted when its turn comes, and reports how the attempt went.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from enginewatch.model import Millis
from enginewatch.notify.message import (
    DeliveryError,
    FailureReason,
    Notification,
    Receipt,
    Receiver,
)
from enginewatch.notify.throttle import Throttle

_LOG: Final = logging.getLogger(__name__)

AT_ONCE: Final = 8
"""Attempts that a receiver may have under way, each of another group."""

LONGEST: Final = 120.0
"""Seconds after which an attempt is given up, whatever its receiver says of timeouts."""

SETTLING: Final = 0.02
"""Seconds between two looks at whether all has left."""

MOST_STALE: Final = 1_000
"""Entries of the heap that may have been overtaken by others."""

STALLED: Final[Millis] = 60_000
"""A lane that waits for longer, though nothing keeps it, means that the courier stands still."""


class Outgoing(NamedTuple):
    """What to send, and the receipt of the one before."""

    notification: Notification
    previous: Receipt | None


class Office(Protocol):
    """Where a courier gets what to send and reports what became of it."""

    async def hand_out(self, receiver: str, group: str) -> Outgoing | None:
        """What to tell of a group now, written down; None when there is nothing."""
        ...

    async def delivered(self, receiver: str, group: str, receipt: Receipt) -> None:
        """Returns once that is written down: until then a crash would tell it again."""
        ...

    async def failed(self, receiver: str, group: str, failure: DeliveryError) -> None:
        """Returns once that is written down."""
        ...


class Courier:
    """`run` must be running for anything to leave. Used in one event loop."""

    def __init__(
        self,
        receiver: Receiver,
        office: Office,
        clock: Callable[[], Millis],
        *,
        at_once: int = AT_ONCE,
        longest: float = LONGEST,
    ):
        self.receiver = receiver
        self._office: Final = office
        self._clock: Final = clock
        self._longest: Final = longest
        self._throttle: Final = Throttle(at_once)
        self._due: dict[str, Millis] = {}
        self._heap: list[tuple[Millis, str]] = []
        self._busy: Final[dict[str, asyncio.Task[None]]] = {}
        self._news: Final = asyncio.Event()
        self._looked_at: Millis = clock()

    def schedule(self, group: str, at: Millis | None) -> None:
        """When to look at a group's lane; None: not until told."""
        if at is None:
            self._due.pop(group, None)
        elif self._due.get(group) != at:
            self._due[group] = at
            heapq.heappush(self._heap, (at, group))
        if len(self._heap) > 2 * len(self._due) + MOST_STALE:
            self._heap = [(at, group) for group, at in self._due.items()]
            heapq.heapify(self._heap)
        self._news.set()

    def shift(self, span: Millis) -> None:
        """The clock was set by `span`: all lanes will be scheduled anew."""
        self._due.clear()
        self._heap.clear()
        self._throttle.shift(span)
        self._news.set()

    def stalled(self, now: Millis) -> bool:
        """Whether a lane waits that nothing keeps from being looked at."""
        if len(self._busy) >= self._throttle.most or now < self._throttle.paused_until:
            return False
        soonest = min((at for key, at in self._due.items() if key not in self._busy), default=now)
        since = max(soonest, self._throttle.paused_until, self._looked_at)
        return now - since > STALLED

    async def run(self) -> None:
        """Deliver until cancelled; what is under way then is cancelled too."""
        try:
            while True:
                self._news.clear()
                wait = self._start_what_is_due()
                # Not wait_for: until Python 3.12 it may swallow that this was cancelled.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._news.wait()
        finally:
            for task in self._busy.values():
                task.cancel()
            await asyncio.gather(*self._busy.values(), return_exceptions=True)

    async def idle(self) -> None:
        """Wait until no attempt is under way."""
        while self._busy:
            await asyncio.wait(self._busy.values())

    async def settle(self) -> None:
        """Wait until nothing is under way and nothing is due that has not been tried before."""
        # What is due is a matter of the clock: there is no event to wait for.
        while self._busy or any(at <= self._clock() for at in self._due.values()):  # noqa: ASYNC110
            await asyncio.sleep(SETTLING)

    def _start_what_is_due(self) -> float | None:
        """Seconds until there may be more to start; None while only news can bring it."""
        now = self._clock()
        self._looked_at = now
        while self._heap and len(self._busy) < self._throttle.most:
            at, group = self._heap[0]
            if self._due.get(group) != at or group in self._busy:
                # Scheduled anew, or under way: it is scheduled again after that.
                heapq.heappop(self._heap)
                continue
            ready = max(at, self._throttle.paused_until)
            if ready > now:
                return (ready - now) / 1000
            heapq.heappop(self._heap)
            del self._due[group]
            self._throttle.began(now, self.receiver.pace)
            self._busy[group] = asyncio.create_task(
                self._attempt(group), name=f"tell {self.receiver.name}"
            )
        return None

    async def _attempt(self, group: str) -> None:
        name = self.receiver.name
        try:
            outgoing = await self._office.hand_out(name, group)
            if outgoing is None:
                return
            try:
                receipt = await self._send(outgoing)
            except DeliveryError as failure:
                self._throttle.failed(group, failure, self._clock())
                await self._office.failed(name, group, failure)
            else:
                self._throttle.succeeded()
                await self._office.delivered(name, group, receipt)
        except Exception:  # noqa: BLE001 - a defect must not leave the group untold for ever
            _LOG.exception("telling %s", name)
            self.schedule(group, self._clock() + STALLED)
        finally:
            del self._busy[group]
            if group in self._due:
                heapq.heappush(self._heap, (self._due[group], group))
            self._news.set()

    async def _send(self, outgoing: Outgoing) -> Receipt:
        try:
            async with asyncio.timeout(self._longest):
                return await self.receiver.send(outgoing.notification, outgoing.previous)
        except DeliveryError:
            raise
        except TimeoutError:
            raise DeliveryError(
                f"did not answer within {self._longest:g} s",
                where=self.receiver.name,
                retryable=True,
                reason=FailureReason.TIMEOUT,
                maybe_delivered=True,
            ) from None
        except Exception as defect:  # noqa: BLE001 - any defect is a failed delivery
            _LOG.exception("%s: a defect of the receiver", self.receiver.name)
            raise DeliveryError(
                f"internal error: {defect!r}",
                where=self.receiver.name,
                retryable=False,
                reason=FailureReason.INTERNAL,
                maybe_delivered=True,
            ) from None
