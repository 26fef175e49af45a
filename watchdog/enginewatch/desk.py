"""The notifications' side as pages and API see it (`web.desk.Desk`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from enginewatch.errors import EnginewatchError
from enginewatch.model import Alert, Millis
from enginewatch.notify.mute import Muting
from enginewatch.notify.notifier import Notifier
from enginewatch.notify.outbox import Entry, EntryState
from enginewatch.notify.route import Route
from enginewatch.notify.silence import Silences
from enginewatch.web.desk import Delivery


class NotifierDesk:
    """What of it changes with the configuration is asked for each time."""

    def __init__(
        self,
        notifier: Notifier,
        alerts: Callable[[], Iterable[Alert]],
        receivers: Callable[[], Sequence[str]],
    ):
        self._notifier: Final = notifier
        self._alerts: Final = alerts
        self._receivers: Final = receivers

    def alerts(self) -> Iterable[Alert]:
        return self._alerts()

    def muting(self, alert: Alert, now: Millis) -> Muting:
        return self._notifier.muting(alert, now)

    def tree(self) -> Route:
        return self._notifier.pipeline.plan.tree

    def receivers(self) -> Sequence[str]:
        return self._receivers()

    def external_url(self) -> str:
        return self._notifier.external_url

    def deliveries(self, alert: Alert) -> Iterator[Delivery]:
        """How each receiver of the alert's groups stands, by the last that is remembered."""
        latest: dict[str, Delivery] = {}
        for entry in self._entries(alert):
            latest[entry.receiver] = _after(latest.get(entry.receiver), entry)
        return iter(latest.values())

    def history(self, alert: Alert) -> Iterable[Entry]:
        return reversed(self._entries(alert))

    def _entries(self, alert: Alert) -> list[Entry]:
        keys = {route.group_key(alert.labels) for route in self.tree().match(alert.labels)}
        found = self._notifier.entries(keys)
        return [entry for entry in found if entry.changed_at >= (alert.fired_at or 0)]

    @property
    def silences(self) -> Silences:
        return self._notifier.silences

    async def keep(self) -> None:
        if not await self._notifier.keep_silences():
            raise EnginewatchError(
                "the silence is in force, but it could not be saved",
                hint="a restart would forget it; the log says why",
            )


def _after(before: Delivery | None, entry: Entry) -> Delivery:
    if entry.state is EntryState.DELIVERED:
        return Delivery(entry.receiver, entry.changed_at, entry.detail)
    at = before.at if before else None
    return Delivery(entry.receiver, at, entry.detail, entry.attempts)
