"""The webhook receiver against a real server: payload, errors, and what never leaks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from tests.support.server import serve

from enginewatch.model import Alert, Labels, freeze
from enginewatch.notify.http import retry_after
from enginewatch.notify.message import DeliveryError, Notification
from enginewatch.notify.webhook import NOT_ENDED, Webhook, payload

FIRED = Alert(
    Labels(alertname="StuckEngine", verdict="stuck_engine", deployment="chat", instance="a:1"),
    freeze({"summary": "no tokens"}),
    value=0.0,
    active_at=1_000_000,
    fired_at=1_010_000,
)
RESOLVED = Alert(
    FIRED.labels.with_(instance="b:1"),
    freeze({"summary": "no tokens"}),
    value=0.0,
    active_at=1_000_000,
    fired_at=1_010_000,
    resolved_at=1_050_500,
)


def notification(*alerts: Alert) -> Notification:
    return Notification("hook", "{}:x", Labels(deployment="chat"), alerts, "http://watch")


class Hook:
    """A webhook endpoint that answers as told and remembers what it was sent."""

    def __init__(self) -> None:
        self.answer = Response("ok")
        self.bodies: list[dict[str, object]] = []
        self.headers: list[dict[str, str]] = []

    async def receive(self, request: Request) -> Response:
        self.bodies.append(await request.json())
        self.headers.append(dict(request.headers))
        return self.answer


@pytest.fixture
def hook() -> Hook:
    return Hook()


@pytest.fixture
def url(hook: Hook) -> Iterator[str]:
    with serve(Starlette(routes=[Route("/secret-path", hook.receive, methods=["POST"])])) as base:
        yield f"{base}/secret-path"


def send(url: str, told: Notification, timeout: float = 5) -> None:
    async def deliver() -> None:
        async with httpx.AsyncClient(timeout=timeout) as client:
            receiver = Webhook("hook", lambda: url, client, headers=lambda: {"X-Token": "t"})
            await receiver.send(told)

    asyncio.run(deliver())


def test_the_payload_is_alertmanagers_version_4() -> None:
    body = payload(notification(FIRED, RESOLVED))
    assert body["version"] == "4"
    assert body["status"] == "firing"
    assert body["groupLabels"] == {"deployment": "chat"}
    assert body["commonLabels"] == {
        "alertname": "StuckEngine",
        "verdict": "stuck_engine",
        "deployment": "chat",
    }
    assert body["commonAnnotations"] == {"summary": "no tokens"}
    firing, resolved = body["alerts"]
    assert firing["status"] == "firing"
    assert firing["startsAt"] == "1970-01-01T00:16:50.000Z"
    assert firing["endsAt"] == NOT_ENDED
    assert firing["generatorURL"] == f"http://watch/alerts/{FIRED.fingerprint}"
    assert resolved["status"] == "resolved"
    assert resolved["endsAt"] == "1970-01-01T00:17:30.500Z"
    json.dumps(body)


def test_a_group_is_resolved_when_its_last_alert_is() -> None:
    assert payload(notification(RESOLVED))["status"] == "resolved"


def test_it_posts_json_with_its_headers(hook: Hook, url: str) -> None:
    send(url, notification(FIRED))
    assert hook.bodies == [payload(notification(FIRED))]
    assert hook.headers[0]["content-type"] == "application/json"
    assert hook.headers[0]["x-token"] == "t"


@pytest.mark.parametrize(
    ("status", "retryable"),
    [
        *[(status, False) for status in (400, 401, 403, 404, 410, 413, 422)],
        *[(status, True) for status in (408, 425, 429, 500, 502, 503, 504)],
    ],
)
def test_an_answer_tells_whether_to_try_again(
    hook: Hook, url: str, status: int, retryable: bool
) -> None:
    hook.answer = Response("the reason", status_code=status, headers={"Retry-After": "7"})
    with pytest.raises(DeliveryError, match=f"hook: answered {status} .*the reason") as caught:
        send(url, notification(FIRED))
    assert caught.value.retryable is retryable
    assert caught.value.retry_after == 7_000
    assert "secret-path" not in str(caught.value)


def test_a_refused_connection_can_be_retried_and_hides_the_url() -> None:
    with pytest.raises(DeliveryError, match="hook: could not be reached: ConnectError") as caught:
        send("http://127.0.0.1:9/secret-path", notification(FIRED))
    assert caught.value.retryable
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("bad", ["ftp://host/secret", "nonsense", "http://[::1/secret"])
def test_what_is_no_url_is_final_and_hidden(bad: str) -> None:
    with pytest.raises(DeliveryError, match="not an http or https URL") as caught:
        send(bad, notification(FIRED))
    assert not caught.value.retryable
    assert "secret" not in str(caught.value)


NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "millis"),
    [
        ("30", 30_000),
        ("0", 0),
        ("Thu, 01 Jan 2026 12:00:05 GMT", 5_000),
        ("Thu, 01 Jan 2026 11:00:00 GMT", 0),
        ("soon", None),
        ("-5", None),
        ("", None),
    ],
)
def test_retry_after_is_read_in_both_forms(header: str, millis: int | None) -> None:
    assert retry_after(httpx.Response(429, headers={"Retry-After": header}), NOW) == millis
