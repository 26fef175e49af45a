"""A webhook that takes Alertmanager's JSON, version 4, and nothing else.

https://prometheus.io/docs/alerting/latest/configuration/#webhook_config
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from enginechaos.receivers.inbox import Delivery
from enginechaos.receivers.provider import Provider

_TEXTS: Final = ("groupKey", "status", "receiver", "externalURL")
_OF_AN_ALERT: Final = ("status", "labels", "annotations", "startsAt", "endsAt", "fingerprint")


class Webhook(Provider):
    name = "webhook"

    def settings(self, base: str) -> dict[str, Any]:
        return {"webhook_configs": [{"url": f"{base}/webhook"}]}

    def routes(self) -> list[Route]:
        return [self.post("/webhook", self._take)]

    async def _take(self, body: dict[str, Any], _: Request) -> Response:
        wrong = fault(body)
        if wrong:
            return self.no(wrong)
        common = _shared(body["alerts"])
        firing = [alert for alert in body["alerts"] if alert["status"] == "firing"]
        self.inbox.take(
            Delivery(
                at=time.time(),
                receiver=self.name,
                key=body["groupKey"],
                firing=body["status"] == "firing",
                verdict=common.get("verdict", ""),
                deployment=common.get("deployment", ""),
                severity=common.get("severity", ""),
                headline=", ".join(sorted({a["labels"].get("alertname", "") for a in firing})),
                alerts=frozenset(str(alert["fingerprint"]) for alert in firing),
                body=body,
            )
        )
        return PlainTextResponse("ok")


def fault(body: dict[str, Any]) -> str:
    """What is wrong with a body, or nothing."""
    return next(_faults(body), "")


def _faults(body: dict[str, Any]) -> Iterator[str]:
    if body.get("version") != "4":
        yield f"version {body.get('version')!r} is not 4"
    yield from (f"{key} is not a text" for key in _TEXTS if not isinstance(body.get(key), str))
    alerts = body.get("alerts")
    if not isinstance(alerts, list) or not alerts:
        yield "no alerts"
        return
    for alert in alerts:
        yield from (f"an alert without {key}" for key in _OF_AN_ALERT if key not in alert)
    some_fire = any(alert.get("status") == "firing" for alert in alerts)
    if body.get("status") != ("firing" if some_fire else "resolved"):
        yield f"status {body.get('status')!r}, and its alerts say otherwise"


def _shared(alerts: list[dict[str, Any]]) -> dict[str, str]:
    """The labels that all alerts share, and the worst severity."""
    shared = dict(alerts[0]["labels"])
    for alert in alerts[1:]:
        shared = {k: v for k, v in shared.items() if alert["labels"].get(k) == v}
    severities = {alert["labels"].get("severity", "") for alert in alerts}
    worst = next((each for each in ("page", "ticket", "info") if each in severities), "")
    return {**shared, "severity": worst}
