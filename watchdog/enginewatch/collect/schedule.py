"""When targets are scraped: at a fixed offset in each interval of the clock."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from apscheduler.triggers.base import BaseTrigger

from enginewatch.model import Millis

_STEP: Final[Millis] = 1_000


class EveryInterval(BaseTrigger):  # type: ignore[misc]  # apscheduler has no types
    """Fires when Unix time is `offset` past a multiple of `interval`, both in milliseconds.

    Unlike APScheduler's own interval, the next time depends on the clock alone:
    after a pause or a step of the clock there is nothing to catch up with.
    """

    def __init__(self, interval: Millis, offset: Millis):
        self._interval: Final = interval
        self._offset: Final = offset % interval

    def get_next_fire_time(self, previous: Any, now: datetime) -> datetime:  # noqa: ARG002
        return datetime.fromtimestamp(self.after(_millis(now)) / 1000, UTC)

    def after(self, now: Millis) -> Millis:
        """The first such time after `now`."""
        rounds = (now - self._offset) // self._interval + 1
        return rounds * self._interval + self._offset


class ClockWatch:
    """Notices when the wall clock is set: APScheduler would sleep until a time that
    a clock set back by an hour reaches an hour late."""

    def __init__(self, wall: Millis, monotonic: Millis):
        self._difference = wall - monotonic

    def stepped(self, wall: Millis, monotonic: Millis) -> bool:
        """Whether the clock was set, by a second or more, since this was last asked."""
        difference = wall - monotonic
        step = abs(difference - self._difference)
        self._difference = difference
        return step >= _STEP


def _millis(moment: datetime) -> Millis:
    return round(moment.timestamp() * 1000)
