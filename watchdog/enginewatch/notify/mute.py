"""Why an alert is not told of now: silences, inhibitions, and the hours that a route is quiet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from enginewatch.config import TimeInterval
from enginewatch.model import Alert, Labels, Millis
from enginewatch.notify.inhibit import Inhibitor
from enginewatch.notify.route import Route
from enginewatch.notify.silence import Silences, silenced_by
from enginewatch.notify.timeinterval import holding


class Muting(NamedTuple):
    """What keeps an alert from being told: ids of silences, alerts, names of time intervals.

    A route that is quiet outside of its active intervals is quiet for the reason
    `not <name>`.
    """

    silenced_by: tuple[str, ...] = ()
    inhibited_by: tuple[Labels, ...] = ()
    quiet_by: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any(self)


class Mutes:
    """Everything that can keep an alert from being told; `at` looks at one moment."""

    def __init__(
        self, silences: Silences, inhibitor: Inhibitor, intervals: Mapping[str, TimeInterval]
    ):
        self.silences = silences
        self.inhibitor = inhibitor
        self.intervals = intervals

    def at(self, now: Millis) -> MuteView:
        return MuteView(self, now)

    def quiet_by(self, route: Route, now: Millis) -> tuple[str, ...]:
        """The intervals because of which a route tells nothing now."""
        muted = holding(route.mute_time_intervals, self.intervals, now)
        active = route.active_time_intervals
        if active and not holding(active, self.intervals, now):
            muted += tuple(f"not {name}" for name in active)
        return muted


class MuteView:
    """The answers at one moment, at which no silence changes; hours are looked up once a route."""

    def __init__(self, mutes: Mutes, now: Millis):
        self._mutes = mutes
        self._now = now
        self._silences = mutes.silences.active(now)
        self._quiet: dict[str, tuple[str, ...]] = {}

    def by(self, route: Route, alert: Alert) -> Muting:
        quiet = self._quiet.get(route.key)
        if quiet is None:
            quiet = self._quiet[route.key] = self._mutes.quiet_by(route, self._now)
        return self.alert(alert, quiet)

    def alert(self, alert: Alert, quiet_by: tuple[str, ...] = ()) -> Muting:
        """What mutes it on every route, and because of the hour."""
        return Muting(
            silenced_by(self._silences, alert.labels),
            self._mutes.inhibitor.inhibited_by(alert, self._now),
            quiet_by,
        )
