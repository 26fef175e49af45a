"""PagerDuty's Events API v2, for one routing key: incidents by dedup_key, 202 or 400 with errors.

developer.pagerduty.com/docs/events-api-v2/trigger-events
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from enginechaos.receivers.inbox import Delivery
from enginechaos.receivers.provider import Provider

KEY: Final = "c0ffee00c0ffee00c0ffee00c0ffee00"
LARGEST: Final = 512_000
_SEVERITIES: Final = {"critical": "page", "warning": "ticket", "info": "info", "error": "error"}


class PagerDuty(Provider):
    name = "pagerduty"

    def settings(self, base: str) -> dict[str, Any]:
        return {"pagerduty_configs": [{"routing_key": KEY, "url": f"{base}/pagerduty/v2/enqueue"}]}

    def routes(self) -> list[Route]:
        return [self.post("/pagerduty/v2/enqueue", self._enqueue)]

    async def _enqueue(self, body: dict[str, Any], _: Request) -> Response:
        errors = list(faults(body))
        if errors:
            said = {"status": "invalid event", "message": "Event object is invalid"}
            return self.no(errors[0], 400, {**said, "errors": errors})
        payload = body.get("payload") or {}
        firing = body["event_action"] != "resolve"
        self.inbox.take(
            Delivery(
                at=time.time(),
                receiver=self.name,
                key=body["dedup_key"],
                firing=firing,
                verdict=str(payload.get("class", "")),
                deployment=str(payload.get("group", "")),
                severity=_SEVERITIES.get(str(payload.get("severity")), ""),
                headline=str(payload.get("summary", "")),
                alerts=_alerts(payload) if firing else frozenset(),
                body=body,
            )
        )
        said = {"status": "success", "message": "Event processed", "dedup_key": body["dedup_key"]}
        return JSONResponse(said, 202)


def faults(body: dict[str, Any]) -> Iterator[str]:
    """What Events API v2 would find wrong with an event."""
    payload = body.get("payload") or {}
    if body.get("routing_key") != KEY:
        yield "Invalid routing key"
    if body.get("event_action") not in {"trigger", "acknowledge", "resolve"}:
        yield "'event_action' is invalid"
    # Optional at PagerDuty, which then makes a new incident of every event.
    if not 0 < len(str(body.get("dedup_key", ""))) <= 255:
        yield "Length of 'dedup_key' is incorrect"
    if body.get("event_action") == "trigger":
        if not 0 < len(str(payload.get("summary", ""))) <= 1024:
            yield "Length of 'payload.summary' is incorrect"
        if not payload.get("source"):
            yield "'payload.source' is missing or blank"
        if payload.get("severity") not in _SEVERITIES:
            yield "'payload.severity' is invalid"
    if len(json.dumps(body)) > LARGEST:
        yield "the event is larger than 512 KB"


def _alerts(payload: dict[str, Any]) -> frozenset[str]:
    details = payload.get("custom_details")
    listed = details.get("firing", ()) if isinstance(details, dict) else ()
    return frozenset(json.dumps(each, sort_keys=True)[:2_000] for each in listed)
