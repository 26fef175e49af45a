"""PagerDuty against a server that keeps incidents by `dedup_key` and refuses what is documented."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import replace

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.notify.alerts import BESIDE, FIRED, URL, notification, resolved, saying
from tests.support.providers import PagerDuty as Provider
from tests.support.providers import Trouble, event_errors
from tests.support.server import serve

from enginewatch.model import Labels
from enginewatch.notify import pagerduty
from enginewatch.notify.message import (
    DeliveryError,
    FailureReason,
    Notification,
    Reason,
    Receipt,
)
from enginewatch.notify.pagerduty import PagerDuty, event

Send = Callable[..., list[Receipt]]


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
def send(provider: Provider) -> Iterator[Send]:
    with serve(provider.app()) as base:

        def send(*told: Notification, key: str = Provider.KEY, timeout: float = 5) -> list[Receipt]:
            async def deliver() -> list[Receipt]:
                async with httpx.AsyncClient(timeout=timeout) as client:
                    receiver = PagerDuty(
                        "on-call/pagerduty[0]", f"{base}/v2/enqueue", lambda: key, client
                    )
                    return [await receiver.send(each) for each in told]

            return asyncio.run(deliver())

        yield send


def test_a_group_is_one_incident_until_all_of_it_has_resolved(
    provider: Provider, send: Send
) -> None:
    send(
        notification(FIRED),
        notification(FIRED, BESIDE, reason=Reason.NEW_ALERTS),
        notification(resolved(FIRED), BESIDE, reason=Reason.NEW_RESOLVED),
    )
    (incident,) = provider.incidents
    assert incident.open
    send(notification(resolved(BESIDE), reason=Reason.ALL_RESOLVED))
    actions = [each["event_action"] for each in incident.events]
    assert actions == ["trigger", "trigger", "trigger", "resolve"]
    assert not incident.open
    send(notification(FIRED))
    assert [each.open for each in provider.incidents] == [False, True]


def test_groups_are_incidents_of_their_own(provider: Provider, send: Send) -> None:
    other = replace(notification(FIRED), group_key="{}:other", group_labels=Labels(deployment="b"))
    send(notification(FIRED), other)
    assert len({each.dedup_key for each in provider.incidents}) == 2


def test_an_event_says_what_helps() -> None:
    body = event(notification(FIRED), Provider.KEY)
    payload = body["payload"]
    assert payload["summary"] == "chat: gpu-1:8000 holds 4 requests and generates nothing"
    assert payload["source"] == "gpu-1:8000"
    assert payload["severity"] == "critical"
    assert payload["timestamp"] == "2025-11-30T19:45:46.000Z"
    assert (payload["component"], payload["group"], payload["class"]) == (
        "vllm",
        "chat",
        "stuck_engine",
    )
    (details,) = payload["custom_details"]["firing"]
    assert details["impact"] == "Every request to chat hangs."
    assert details["Value"] == "4 (threshold > 0)"
    assert details["evidence"] == ["step 41 took 300 s", "worker 1 did not answer"]
    assert details["labels"] == dict(FIRED.labels)
    page = f"{URL}/alerts/{FIRED.fingerprint}"
    assert body["links"] == [
        {"href": "https://runbooks.example/stuck_engine.md", "text": "Runbook"},
        {"href": page, "text": "Alert"},
        {"href": f"{page}#silence", "text": "Silence"},
    ]
    assert body["client_url"] == URL


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("page", "critical"),
        ("ticket", "warning"),
        ("info", "info"),
        ("warning", "warning"),
        ("", "error"),
        ("sev2", "error"),
    ],
)
def test_severities_are_pagerdutys(given: str, sent: str) -> None:
    told = notification(replace(FIRED, labels=FIRED.labels.with_(severity=given)))
    assert event(told, Provider.KEY)["payload"]["severity"] == sent
    assert event(told, Provider.KEY, "error")["payload"]["severity"] == "error"


def test_too_large_an_event_goes_without_its_details(provider: Provider, send: Send) -> None:
    send(notification(*[saying(evidence="x" * 100_000)] * 6))
    ((_, body),) = provider.requests
    assert "Left out" in body["payload"]["custom_details"]["note"]
    assert len(json.dumps(body)) <= pagerduty.BODY
    assert provider.incidents


def test_what_may_be_a_repeat_says_so() -> None:
    details = event(notification(maybe_repeat=True), Provider.KEY)["payload"]["custom_details"]
    assert "may be a repeat" in details["note"]


@given(st.text(max_size=50), st.integers(1, 300), st.integers(1, 3))
@settings(deadline=None, max_examples=50)
def test_any_text_of_any_length_is_taken(text: str, times: int, count: int) -> None:
    said = dict.fromkeys(("summary", "description", "evidence", "runbook_url"), text * times)
    labels = dict.fromkeys(("deployment", "instance", "runtime", "verdict"), text * times)
    hostile = replace(saying(**said), labels=FIRED.labels.with_(**labels))
    body = event(notification(*[hostile] * count), Provider.KEY)
    assert list(event_errors(body, Provider.KEY)) == []
    json.dumps(body).encode()


def test_a_wrong_key_is_final_and_not_told(send: Send) -> None:
    key = "f" * 32
    with pytest.raises(DeliveryError, match=r"400 .*Invalid routing key: <secret>") as caught:
        send(notification(), key=key)
    assert not caught.value.retryable
    assert key not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "retryable", "reason"),
    [
        (400, False, FailureReason.REJECTED),
        (403, False, FailureReason.REJECTED),
        (429, True, FailureReason.RATE_LIMITED),
        (500, True, FailureReason.SERVER_ERROR),
        (503, True, FailureReason.SERVER_ERROR),
    ],
)
def test_an_answer_tells_whether_to_try_again(
    provider: Provider, send: Send, status: int, retryable: bool, reason: FailureReason
) -> None:
    provider.troubles.append(Trouble(status, "no", {"Retry-After": "9"}))
    with pytest.raises(DeliveryError) as caught:
        send(notification())
    assert (caught.value.retryable, caught.value.reason) == (retryable, reason)
    assert caught.value.retry_after == 9_000


def test_an_attempt_whose_answer_was_lost_opens_no_second_incident(
    provider: Provider, send: Send
) -> None:
    for trouble in (
        Trouble(drop=True, after_taking=True),
        Trouble(seconds=1.5, after_taking=True),
    ):
        provider.troubles.append(trouble)
        with pytest.raises(DeliveryError) as caught:
            send(notification(), timeout=0.5)
        assert caught.value.maybe_delivered
    send(notification(maybe_repeat=True))
    assert len(provider.incidents) == 1
