"""When the next attempt may be made: backoff of one group's lane, and of a whole receiver.

A lane backs off by itself, so a notification that its provider chokes on holds
up no other. The receiver as a whole pauses when its provider asks for that
(`Retry-After`), and is only probed, one attempt at a time, once several groups in
a row have failed: then it is the provider, and not what it is told.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from tenacity import AsyncRetrying, RetryCallState
from tenacity.wait import wait_exponential, wait_exponential_jitter

from enginewatch.model import Millis
from enginewatch.notify.message import DeliveryError

SOON: Final = wait_exponential_jitter(initial=1, max=60, jitter=1)
"""Seconds between attempts that may succeed as they are."""

LATER: Final = wait_exponential(multiplier=300, max=3600)
"""Seconds until what was refused for good is tried again: a person has to do something first."""

LONGEST_ASKED: Final[Millis] = 3_600_000
"""A provider that asks for more is not listened to: pages wait on it."""

PROBING_AFTER: Final = 5
"""Failures in a row, of `PROBING_LANES` groups at least, after which a receiver is only probed."""

PROBING_LANES: Final = 3
LONGEST_PROBING: Final[Millis] = 15_000
"""A new page may be what finds out that the provider is back: it does not wait for longer."""

_CALLS: Final = AsyncRetrying()


def wait_of(failure: DeliveryError, attempts: int) -> Millis:
    """How long a lane waits after its `attempts`-th failure in a row."""
    strategy = SOON if failure.retryable else LATER
    state = RetryCallState(_CALLS, None, (), {})
    state.attempt_number = attempts
    return max(round(strategy(state) * 1000), _asked(failure))


def _asked(failure: DeliveryError) -> Millis:
    return min(max(0, failure.retry_after or 0), LONGEST_ASKED)


class Throttle:
    """How many attempts one receiver may have under way, and from when on. Without a clock.

    `paused_until` is when the next may begin.
    """

    def __init__(self, most: int):
        self._most: Final = most
        self._failures: Final[deque[str]] = deque(maxlen=PROBING_AFTER)
        self._in_a_row = 0
        self.paused_until: Millis = 0

    @property
    def probing(self) -> bool:
        """Whether the provider seems to be down."""
        full = len(self._failures) == PROBING_AFTER
        return full and len(set(self._failures)) >= PROBING_LANES

    @property
    def most(self) -> int:
        return 1 if self.probing else self._most

    def began(self, now: Millis, pace: Millis) -> None:
        """An attempt has begun; the next may after `pace`."""
        self.paused_until = max(self.paused_until, now + pace)

    def succeeded(self) -> None:
        self._failures.clear()
        self._in_a_row = 0

    def failed(self, lane: str, failure: DeliveryError, now: Millis) -> None:
        self._in_a_row += 1
        self._failures.append(lane)
        pause = _asked(failure)
        if failure.retryable and self.probing:
            backoff = wait_of(failure, self._in_a_row - PROBING_AFTER + 1)
            pause = max(pause, min(backoff, LONGEST_PROBING))
        if pause:
            self.paused_until = max(self.paused_until, now + pause)

    def shift(self, span: Millis) -> None:
        """The clock was set by `span`."""
        self.paused_until += span
