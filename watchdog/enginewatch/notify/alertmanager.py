"""Alertmanager receiver: posts alerts as Prometheus does, to `/api/v2/alerts`.

Alertmanager calls an alert resolved once its `endsAt` has passed, so one that fires is
given an end in the future, and the pipeline has it sent again long before that. Prometheus
does so every minute (`--rules.alert.resend-delay`), with an end that is four times as far
off: a sender that has died takes its alerts along, and two lost posts do no harm.
The API: github.com/prometheus/alertmanager, api/v2/openapi.yaml; the sender's side:
github.com/prometheus/prometheus, rules/alerting.go, `sendAlerts`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import httpx

from enginewatch.model import Alert, Millis
from enginewatch.notify.http import deliver
from enginewatch.notify.message import Notification, Receipt
from enginewatch.notify.text import alert_page, started
from enginewatch.units import format_time

PATH: Final = "/api/v2/alerts"

LIVES: Final = 4
"""An alert that fires ends so many times the resend delay after it was last sent."""


@dataclass(frozen=True)
class Alertmanager:
    """Posts to the Alertmanager at `url`.

    Alerts that fire are valid for `lifetime` ms from when their notification was decided on.
    """

    name: str
    url: str
    lifetime: Millis
    client: httpx.AsyncClient
    send_resolved: bool = True
    headers: Callable[[], Mapping[str, str]] = field(default=dict)

    pace: ClassVar[Millis] = 0

    async def send(self, notification: Notification, _: Receipt | None = None) -> Receipt:
        return await deliver(
            self.client,
            self.url.rstrip("/") + PATH,
            alerts(notification, self.lifetime),
            receiver=self.name,
            headers=self.headers(),
        )

    async def close(self) -> None:
        await self.client.aclose()


def alerts(notification: Notification, lifetime: Millis) -> list[dict[str, Any]]:
    """The body: the group's alerts, those that fire with an end that is `lifetime` ms off."""
    return [_alert(alert, notification, lifetime) for alert in notification.alerts]


def _alert(alert: Alert, notification: Notification, lifetime: Millis) -> dict[str, Any]:
    page = alert_page(alert, notification.external_url)
    begun = started(alert)
    # An end before the start is refused, and with it the whole post; clocks do step back.
    if alert.resolved_at is None:
        ended = max(begun, notification.at) + lifetime
    else:
        ended = max(begun, alert.resolved_at)
    return {
        "labels": dict(alert.labels),
        "annotations": dict(alert.annotations),
        "startsAt": format_time(begun),
        "endsAt": format_time(ended),
        **({"generatorURL": page} if page else {}),
    }
