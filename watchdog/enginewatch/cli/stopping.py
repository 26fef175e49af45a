"""Waiting until a command is told to stop."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress


def stop_on_signal() -> asyncio.Event:
    """An event that SIGTERM and SIGINT set, in the running loop."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


async def until(stop: asyncio.Event, seconds: float | None) -> None:
    """Wait for `stop`, but no longer than this; None is for ever."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
