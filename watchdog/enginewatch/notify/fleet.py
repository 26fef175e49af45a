"""The couriers of one configuration at a time, kept running whatever befalls them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from enginewatch.model import Millis
from enginewatch.notify.deliver import Courier, Office
from enginewatch.notify.message import Receiver
from enginewatch.revive import keep_running

_LOG: Final = logging.getLogger(__name__)

REVIVAL: Final = 1.0
"""Seconds before a courier that failed by a defect is set going again."""


class Fleet:
    """One courier a receiver, by its name. Used in one event loop."""

    def __init__(self, office: Office, clock: Callable[[], Millis]):
        self._office: Final = office
        self._clock: Final = clock
        self._couriers: dict[str, Courier] = {}
        self._runs: Final[dict[str, asyncio.Task[None]]] = {}
        self._leaving: Final[set[asyncio.Task[None]]] = set()
        self._running = False

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._couriers)

    def follow(self, receivers: Mapping[str, Receiver]) -> None:
        """These receivers from now on; those of the same name are taken over where they stand."""
        before, self._couriers = self._couriers, {}
        for name, receiver in receivers.items():
            courier = before.pop(name, None)
            if courier is None:
                courier = Courier(receiver, self._office, self._clock)
            elif courier.receiver is not receiver:
                self._spawn(_close_once_idle(courier, courier.receiver))
                courier.receiver = receiver
            self._couriers[name] = courier
        for name, courier in before.items():
            run = self._runs.pop(name, None)
            if run is not None:
                run.cancel()
            self._spawn(_close_once_idle(courier, courier.receiver))
        if self._running:
            self.start()

    def start(self) -> None:
        self._running = True
        for name, courier in self._couriers.items():
            if name not in self._runs:
                self._runs[name] = keep_running(f"courier {name}", courier.run, pause=REVIVAL)

    def schedule(self, receiver: str, group: str, at: Millis | None) -> None:
        courier = self._couriers.get(receiver)
        if courier is not None:
            courier.schedule(group, at)

    def shift(self, span: Millis) -> None:
        for courier in self._couriers.values():
            courier.shift(span)

    def stalled(self, now: Millis) -> tuple[str, ...]:
        """Receivers whose courier stands still."""
        if not self._running:
            return ()
        return tuple(name for name, courier in self._couriers.items() if courier.stalled(now))

    async def settle(self, seconds: float) -> None:
        """Wait until nothing is under way and nothing due, at most so long."""
        waits = [asyncio.ensure_future(each.settle()) for each in self._couriers.values()]
        if waits:
            _, late = await asyncio.wait(waits, timeout=seconds)
            for wait in late:
                wait.cancel()

    async def stop(self) -> None:
        """Attempts under way are abandoned: they may have arrived."""
        tasks = {*self._runs.values(), *self._leaving}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for courier in self._couriers.values():
            await _close(courier.receiver)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)


async def _close_once_idle(courier: Courier, receiver: Receiver) -> None:
    await courier.idle()
    await _close(receiver)


async def _close(receiver: Receiver) -> None:
    try:
        await receiver.close()
    except Exception:  # noqa: BLE001 - it is not used any more
        _LOG.exception("closing %s", receiver.name)
