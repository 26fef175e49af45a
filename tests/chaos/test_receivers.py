"""The suite's receivers over HTTP: they hold what the providers document, and fail when told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from enginechaos.errors import TargetError
from enginechaos.receivers import Receivers, Trouble
from enginechaos.receivers.pagerduty import KEY
from enginechaos.receivers.slack import CHANNEL, TOKEN

pytestmark = pytest.mark.integration

ALERT: dict[str, Any] = {
    "status": "firing",
    "labels": {"verdict": "cuda_oom", "deployment": "chat", "severity": "page"},
    "annotations": {},
    "startsAt": "2026-01-01T00:00:00Z",
    "endsAt": "0001-01-01T00:00:00Z",
    "fingerprint": "f1",
}
WEBHOOK: dict[str, Any] = {
    "version": "4",
    "groupKey": "g",
    "status": "firing",
    "receiver": "r",
    "externalURL": "",
    "alerts": [ALERT],
}
EVENT: dict[str, Any] = {
    "routing_key": KEY,
    "event_action": "trigger",
    "dedup_key": "d",
    "payload": {
        "summary": "s",
        "source": "gpu-1:8000",
        "severity": "critical",
        "class": "cuda_oom",
        "group": "chat",
    },
}
RUNBOOK = "https://github.com/enginewatch/enginewatch/blob/main/rules/runbooks/cuda_oom.md"
MESSAGE: dict[str, Any] = {
    "channel": CHANNEL,
    "text": "FIRING: memory is out",
    "blocks": [{"type": "header", "text": {"type": "plain_text", "text": "memory is out"}}],
    "attachments": [
        {
            "color": "#d32f2f",
            "blocks": [
                {"type": "section", "fields": [{"type": "mrkdwn", "text": "*Deployment*\n`chat`"}]},
                {"type": "context", "elements": [{"type": "mrkdwn", "text": f"<{RUNBOOK}|Book>"}]},
            ],
        }
    ],
}


@pytest.fixture
def receivers() -> Iterator[Receivers]:
    made = Receivers()
    made.start()
    yield made
    made.stop()


def post(receivers: Receivers, path: str, body: Any, token: str = TOKEN) -> httpx.Response:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.post(f"{receivers.url}{path}", json=body, headers=headers, trust_env=False)


def slack(receivers: Receivers, method: str, **changes: Any) -> dict[str, Any]:
    said = post(receivers, f"/slack/api/{method}", {**MESSAGE, **changes})
    return dict(said.json())


def test_all_three_tell_the_same_story(receivers: Receivers) -> None:
    assert post(receivers, "/webhook", WEBHOOK).status_code == 200
    assert post(receivers, "/pagerduty/v2/enqueue", EVENT).status_code == 202
    ts = slack(receivers, "chat.postMessage")["ts"]
    heard = receivers.inbox.taken()
    told = {(d.verdict, d.deployment, d.severity, d.firing) for d in heard}
    assert told == {("cuda_oom", "chat", "page", True)}
    assert {d.receiver: d.key for d in heard} == {"webhook": "g", "pagerduty": "d", "slack": ts}
    over = slack(receivers, "chat.update", ts=ts, text="RESOLVED: memory is out")
    assert over["ok"]
    assert not receivers.inbox.taken()[-1].firing


def test_a_thread_is_no_page(receivers: Receivers) -> None:
    ts = slack(receivers, "chat.postMessage")["ts"]
    assert slack(receivers, "chat.postMessage", thread_ts=ts)["ok"]
    assert len(receivers.inbox.taken()) == 1


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ([], "the body is not a JSON object"),
        ({**WEBHOOK, "version": "3"}, "version '3' is not 4"),
        ({**WEBHOOK, "alerts": []}, "no alerts"),
        ({**WEBHOOK, "status": "resolved"}, "and its alerts say otherwise"),
        ({**WEBHOOK, "alerts": [{**ALERT, "labels": {}} | {"x": 1}]}, ""),
        ({**WEBHOOK, "groupKey": None}, "groupKey is not a text"),
        ({**WEBHOOK, "alerts": [{"status": "firing"}]}, "an alert without labels"),
    ],
)
def test_a_webhook_takes_version_four_only(receivers: Receivers, body: Any, says: str) -> None:
    answer = post(receivers, "/webhook", body)
    assert answer.status_code == (400 if says else 200)
    assert not says or says in receivers.inbox.refused()[0]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"routing_key": "another"}, "Invalid routing key"),
        ({"dedup_key": ""}, "Length of 'dedup_key' is incorrect"),
        ({"event_action": "open"}, "'event_action' is invalid"),
        ({"payload": {}}, "Length of 'payload.summary' is incorrect"),
        ({"payload": {**EVENT["payload"], "severity": "page"}}, "'payload.severity' is invalid"),
        ({"links": ["x" * 600_000]}, "the event is larger than 512 KB"),
    ],
)
def test_pagerduty_says_what_is_wrong(receivers: Receivers, changes: Any, says: str) -> None:
    answer = post(receivers, "/pagerduty/v2/enqueue", {**EVENT, **changes})
    assert answer.status_code == 400
    assert says in answer.json()["errors"]
    assert not receivers.inbox.taken()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"channel": "#else"}, "channel_not_found"),
        ({"text": "", "blocks": []}, "no_text"),
        ({"blocks": [{"type": "header", "text": {"text": "x" * 151}}]}, "invalid_blocks"),
        ({"blocks": [{"type": "carousel"}]}, "invalid_blocks"),
        ({"thread_ts": "1.0"}, "thread_not_found"),
    ],
)
def test_slack_refuses_with_200_and_its_own_word(
    receivers: Receivers, changes: Any, says: str
) -> None:
    assert slack(receivers, "chat.postMessage", **changes) == {"ok": False, "error": says}
    assert slack(receivers, "chat.update", ts="1.0")["error"] == "message_not_found"
    wrong = post(receivers, "/slack/api/chat.postMessage", MESSAGE, token="x")
    assert wrong.json()["error"] == "invalid_auth"


def test_a_receiver_in_trouble_takes_nothing_and_is_no_breach_of_contract(
    receivers: Receivers,
) -> None:
    receivers.pagerduty.trouble = Trouble(429, "slow down", retry_after=7)
    answer = post(receivers, "/pagerduty/v2/enqueue", EVENT)
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "7")
    assert receivers.pagerduty.attempts == 1
    assert not receivers.inbox.taken()
    assert not receivers.inbox.refused()
    receivers.pagerduty.trouble = None
    assert post(receivers, "/pagerduty/v2/enqueue", EVENT).status_code == 202


def test_an_address_that_is_taken_is_said_so(receivers: Receivers) -> None:
    port = int(receivers.url.rpartition(":")[2])
    with pytest.raises(TargetError, match="receivers can't listen on"):
        Receivers(port=port).start()
