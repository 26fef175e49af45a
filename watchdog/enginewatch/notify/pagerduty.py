"""PagerDuty receiver: Events API v2, one incident per group, from its first alert to its last.

Every notification of a group carries the same `dedup_key`: one that fires adds to the
open incident, and only the last, when nothing of the group fires any more, resolves it.
Fields and limits: developer.pagerduty.com/docs/events-api-v2/trigger-events.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Final

import httpx

from enginewatch.model import Alert, AlertState, Millis
from enginewatch.notify import text
from enginewatch.notify.http import check, excerpt, post
from enginewatch.notify.message import Notification, Receipt
from enginewatch.units import format_time

SUMMARY: Final = 1_024
FIELD: Final = 255
"""Longest source, component, group or class that is sent; PagerDuty documents no limit of these."""

BODY: Final = 512_000
"""Bytes: the documented 512 KB in their smaller reading, as Alertmanager takes it."""

MOST_LINKS: Final = 20

SEVERITIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "page": "critical",
        "ticket": "warning",
        **{name: name for name in ("critical", "error", "warning", "info")},
    }
)
OTHER_SEVERITY: Final = "error"

DROPPED: Final = (
    f"Left out: with them the event would be larger than the {BODY:,} bytes that PagerDuty takes. "
    "The alert's page has them."
)


@dataclass(frozen=True)
class PagerDuty:
    """Sends to `url` with the integration key that `routing_key()` reads at each delivery.

    `severity`, where given, replaces what the alerts' own would be mapped to.
    """

    name: str
    url: str
    routing_key: Callable[[], str]
    client: httpx.AsyncClient
    send_resolved: bool = True
    severity: str | None = None
    headers: Callable[[], Mapping[str, str]] = field(default=dict)

    pace: ClassVar[Millis] = 0

    async def send(self, notification: Notification, _: Receipt | None = None) -> Receipt:
        key = self.routing_key()
        body = event(notification, key, self.severity)
        answer = await post(self.client, self.url, body, receiver=self.name, headers=self.headers())
        check(answer, receiver=self.name, secrets=(key,))
        said = excerpt(answer, (key,))
        return Receipt(detail=f"{answer.status_code} {body['event_action']}: {said}")

    async def close(self) -> None:
        await self.client.aclose()


def event(
    notification: Notification, routing_key: str, severity: str | None = None
) -> dict[str, Any]:
    """The body of a request; without details where it would be too large with them."""
    whole: dict[str, Any] = {
        "routing_key": routing_key,
        "dedup_key": notification.dedup_key,
        "event_action": ("resolve" if notification.status is AlertState.RESOLVED else "trigger"),
        "payload": _payload(notification, severity),
        "links": _links(notification),
        "client": "enginewatch",
        **({"client_url": notification.external_url} if notification.external_url else {}),
    }
    if len(json.dumps(whole)) > BODY:
        whole["payload"]["custom_details"] = {"note": DROPPED}
    return whole


def _payload(notification: Notification, severity: str | None) -> dict[str, Any]:
    alerts = text.ranked(notification)
    common = notification.common_labels
    labels = {**alerts[0].labels, **common, **notification.group_labels}
    known = {
        "component": labels.get("runtime") or labels.get("job"),
        "group": labels.get("deployment"),
        "class": labels.get("verdict") or labels.get("alertname"),
    }
    return {
        "summary": text.cut(text.headline(notification), SUMMARY) or "alert",
        "source": _field(labels.get("instance") or labels.get("deployment")) or "enginewatch",
        "severity": severity or SEVERITIES.get(text.severity(notification), OTHER_SEVERITY),
        "timestamp": format_time(min(map(text.started, alerts))),
        **{key: _field(value) for key, value in known.items() if value},
        "custom_details": {
            "change": text.change(notification),
            **({"note": text.MAYBE_REPEAT} if notification.maybe_repeat else {}),
            "firing": [_details(a) for a in alerts if a.state is AlertState.FIRING],
            "resolved": [_details(a) for a in alerts if a.state is AlertState.RESOLVED],
        },
    }


def _field(value: str | None) -> str:
    return text.cut(text.one_line(value or ""), FIELD)


def _details(alert: Alert) -> dict[str, Any]:
    said = text.told(alert, "")
    return {
        "symptom": said.symptom,
        **({"impact": said.impact} if said.impact else {}),
        **({"description": said.description} if said.description else {}),
        **dict(said.facts),
        **({"evidence": list(said.evidence)} if said.evidence else {}),
        "labels": dict(alert.labels),
    }


def _links(notification: Notification) -> list[dict[str, str]]:
    """Each link once, those of the worst alert first."""
    found: dict[str, str] = {}
    for alert in text.ranked(notification):
        for link in text.links(alert, notification.external_url):
            place = text.one_line(alert.labels.get("instance", "")) or alert.fingerprint
            own = link.title in {"Alert", "Silence"} and len(notification.alerts) > 1
            found.setdefault(link.url, f"{link.title} {place}" if own else link.title)
    return [{"href": url, "text": title} for url, title in list(found.items())[:MOST_LINKS]]
