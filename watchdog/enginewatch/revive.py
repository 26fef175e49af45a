"""Work that ends by an error begins again: neither blindness nor silence may last unnoticed."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, Final

REVIVAL: Final = 5.0
"""Seconds until what failed is begun again."""

failures: Final[Counter[str]] = Counter()
"""How often work has failed in this process, by its name: of the collectors a metric."""

_log = logging.getLogger(__name__)


def keep_running(
    name: str, work: Callable[[], Coroutine[Any, Any, None]], *, pause: float = REVIVAL
) -> asyncio.Task[None]:
    """A task that runs `work` for ever, and again after it has failed; cancel it to end it."""

    async def run() -> None:
        while True:
            try:
                await work()
            except Exception:  # noqa: BLE001 - whatever it is, the next look may be better
                failures[name] += 1
                _log.exception("%s failed, and is begun again in %g s", name, pause)
                await asyncio.sleep(pause)
            else:
                return

    return asyncio.create_task(run(), name=name)
