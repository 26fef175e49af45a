"""Looks at the watchdog several times a second, and keeps the story of each alert.

Also the one that guards a fault: its hard time cap and the signals that may not leave their
bounds are looked at here, in a thread, whatever the test itself is waiting for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from enginechaos.errors import WatchdogError
from enginechaos.watchdog import Seen, Watchdog

EVERY: Final = 0.25
"""Seconds between two looks: how exact `firing` and `resolved` are."""


@dataclass
class Story:
    """One alert's life, in Unix seconds. `pending_at` is what the watchdog says itself."""

    alert: Seen
    pending_at: float
    firing_at: float | None = None
    gone_at: float | None = None

    @property
    def firing(self) -> bool:
        return self.firing_at is not None and self.gone_at is None


class Observer:
    """Of one deployment on one watchdog. `trips` are asked at each look; the first reason that
    one gives is handed to `on_trip`, in the observer's thread."""

    def __init__(self, watchdog: Watchdog, deployment: str):
        self._watchdog: Final = watchdog
        self._deployment: Final = deployment
        self._changed: Final = threading.Condition()
        self._stories: list[Story] = []
        self._open: dict[tuple[tuple[str, str], ...], Story] = {}
        self._failure: str | None = None
        self._stopped: Final = threading.Event()
        self._trips: list[Callable[[], str | None]] = []
        self._thread: Final = threading.Thread(target=self._run, name="observer", daemon=True)

    def start(self) -> None:
        self.look()
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join(10)

    def stories(self, since: float = 0.0) -> list[Story]:
        """Of alerts that were active at `since` or later."""
        with self._changed:
            return [s for s in self._stories if s.gone_at is None or s.gone_at >= since]

    def active(self) -> list[Seen]:
        with self._changed:
            return [story.alert for story in self._open.values()]

    @property
    def failure(self) -> str | None:
        """Why the last look saw nothing, if it did not."""
        with self._changed:
            return self._failure

    def watch(self, trip: Callable[[], str | None]) -> None:
        """Ask `trip` at every look, from now on, until it gives a reason."""
        with self._changed:
            self._trips.append(trip)

    def unwatch(self, trip: Callable[[], str | None]) -> None:
        with self._changed:
            if trip in self._trips:
                self._trips.remove(trip)

    def look(self) -> None:
        """One look. A watchdog that does not answer changes no story: absence proves nothing."""
        now = time.time()
        try:
            seen = {each.key: each for each in self._watchdog.alerts(self._deployment)}
        except WatchdogError as failure:
            with self._changed:
                self._failure = str(failure)
            return
        with self._changed:
            self._failure = None
            for key, alert in seen.items():
                self._see(key, alert, now)
            for key in [key for key in self._open if key not in seen]:
                self._open.pop(key).gone_at = now

    def _see(self, key: tuple[tuple[str, str], ...], alert: Seen, now: float) -> None:
        story = self._open.get(key)
        if story is None:
            story = Story(alert, pending_at=min(_seconds(alert.active_at, now), now))
            self._open[key] = story
            self._stories.append(story)
        story.alert = alert
        if alert.state == "firing" and story.firing_at is None:
            story.firing_at = now

    def _run(self) -> None:
        while not self._stopped.wait(EVERY):
            self.look()
            with self._changed:
                trips = list(self._trips)
            for trip in trips:
                if trip() is not None:
                    self.unwatch(trip)


def _seconds(text: str, otherwise: float) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return otherwise
