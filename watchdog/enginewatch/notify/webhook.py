"""Webhook receiver: Alertmanager's webhook JSON, version 4, so existing endpoints understand it.

The payload is documented at prometheus.io/docs/alerting/latest/configuration/#webhook_config.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import httpx

from enginewatch.model import Alert, AlertState, Millis
from enginewatch.notify.http import deliver
from enginewatch.notify.message import Notification, Receipt
from enginewatch.notify.text import alert_page, started
from enginewatch.units import format_time

NOT_ENDED = "0001-01-01T00:00:00Z"
"""Go's zero time: how Alertmanager writes the end of an alert that still fires."""


@dataclass(frozen=True)
class Webhook:
    """Posts to the URL that `url()` reads at each delivery, so that a rotated secret is seen."""

    name: str
    url: Callable[[], str]
    client: httpx.AsyncClient
    send_resolved: bool = True
    headers: Callable[[], Mapping[str, str]] = field(default=dict)

    pace: ClassVar[Millis] = 0

    async def send(self, notification: Notification, _: Receipt | None = None) -> Receipt:
        return await deliver(
            self.client,
            self.url(),
            payload(notification),
            receiver=self.name,
            headers=self.headers(),
        )

    async def close(self) -> None:
        await self.client.aclose()


def payload(notification: Notification) -> dict[str, Any]:
    """The JSON body; times are RFC 3339 in UTC."""
    return {
        "version": "4",
        "groupKey": notification.group_key,
        "truncatedAlerts": 0,
        "status": notification.status.value,
        "receiver": notification.receiver,
        "groupLabels": dict(notification.group_labels),
        "commonLabels": notification.common_labels,
        "commonAnnotations": notification.common_annotations,
        "externalURL": notification.external_url,
        "alerts": [_alert(a, notification.external_url) for a in notification.alerts],
    }


def _alert(alert: Alert, external_url: str) -> dict[str, Any]:
    ended = alert.resolved_at
    return {
        "status": ("resolved" if alert.state is AlertState.RESOLVED else "firing"),
        "labels": dict(alert.labels),
        "annotations": dict(alert.annotations),
        "startsAt": format_time(started(alert)),
        "endsAt": NOT_ENDED if ended is None else format_time(ended),
        "generatorURL": alert_page(alert, external_url),
        "fingerprint": alert.fingerprint,
    }
