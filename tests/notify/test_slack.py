"""Slack receivers against a server that refuses what Slack documents it would."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.notify.alerts import BESIDE, FIRED, URL, notification, resolved, saying
from tests.support.providers import Slack, Trouble, blocks_of, refusal, text_objects
from tests.support.server import serve

from enginewatch.notify import slack_message
from enginewatch.notify.message import (
    DeliveryError,
    FailureReason,
    Notification,
    Reason,
    Receipt,
)
from enginewatch.notify.slack import SlackBot, SlackWebhook

Send = Callable[..., Receipt]


@pytest.fixture
def slack() -> Slack:
    return Slack()


@pytest.fixture
def base(slack: Slack) -> Iterator[str]:
    with serve(slack.app()) as url:
        yield url


def through(make: Callable[[httpx.AsyncClient], SlackBot | SlackWebhook]) -> Send:
    """Sends notifications, each with the receipt of the one before it."""

    def send(*told: Notification, previous: Receipt | None = None, timeout: float = 5) -> Receipt:
        async def deliver() -> Receipt:
            receipt = previous
            async with httpx.AsyncClient(timeout=timeout) as client:
                receiver = make(client)
                for each in told:
                    receipt = await receiver.send(each, receipt)
            assert receipt is not None
            return receipt

        return asyncio.run(deliver())

    return send


@pytest.fixture
def bot(base: str) -> Send:
    return through(
        lambda client: SlackBot(
            "on-call/slack[0]", f"{base}/api/", lambda: Slack.TOKEN, "#alerts", client
        )
    )


@pytest.fixture
def webhook(base: str) -> Send:
    return through(
        lambda client: SlackWebhook("on-call/slack[0]", lambda: f"{base}/webhook", client)
    )


def shown(message: dict[str, Any]) -> str:
    return "\n".join(text for _, text in text_objects(message))


def test_a_bots_message_is_kept_up_to_date_and_turns_green(slack: Slack, bot: Send) -> None:
    receipt = bot(
        notification(FIRED),
        notification(FIRED, BESIDE, reason=Reason.NEW_ALERTS),
        notification(resolved(FIRED), resolved(BESIDE), reason=Reason.ALL_RESOLVED),
    )
    (message,) = slack.top
    assert message["text"].startswith("RESOLVED: chat: gpu-1:8000 holds 4 requests")
    assert message["attachments"][0]["color"] == slack_message.GREEN
    assert [each["text"] for each in slack.thread(receipt.state["ts"])] == [
        "Firing: chat: gpu-1:8000 holds 4 requests and generates nothing (and 1 more) (2 firing).",
        "Resolved after 1m35s.",
    ]
    assert receipt.state["channel"] == "C0ALERTS"
    assert Slack.TOKEN not in receipt.detail


def test_a_page_says_what_helps(slack: Slack, bot: Send) -> None:
    bot(notification(FIRED))
    (message,) = slack.top
    assert message["attachments"][0]["color"] == slack_message.COLOURS["page"]
    said = shown(message)
    for part in (
        "FIRING: chat: gpu-1:8000 holds 4 requests and generates nothing",
        "Every request to chat hangs.",
        "`4 (threshold &gt; 0)`",
        "`2025-11-30 19:45:46 UTC`",
        "step 41 took 300 s\nworker 1 did not answer",
        "<https://runbooks.example/stuck_engine.md|Runbook>",
        f"<{URL}/alerts/{FIRED.fingerprint}|Alert>",
        f"<{URL}/alerts/{FIRED.fingerprint}#silence|Silence>",
    ):
        assert part in said


def test_only_a_repetition_is_shown_in_the_channel_again(slack: Slack, bot: Send) -> None:
    bot(notification(), notification(BESIDE), notification(reason=Reason.REPEAT))
    thread = [body for _, body in slack.requests if "thread_ts" in body]
    assert [body.get("reply_broadcast", False) for body in thread] == [False, True]
    assert thread[1]["text"] == "Still firing, since 2025-11-30 19:45:46 UTC."


def test_a_message_somebody_deleted_is_posted_anew(slack: Slack, bot: Send) -> None:
    first = bot(notification())
    slack.messages.clear()
    second = bot(notification(resolved()), previous=first)
    (message,) = slack.top
    assert message["text"].startswith("RESOLVED")
    assert "the former message is gone" in second.detail


def test_a_webhook_adds_messages(slack: Slack, webhook: Send) -> None:
    webhook(notification(), notification(resolved()))
    colours = [message["attachments"][0]["color"] for message in slack.top]
    assert colours == [slack_message.COLOURS["page"], slack_message.GREEN]


def test_what_may_be_a_repeat_says_so(slack: Slack, bot: Send, webhook: Send) -> None:
    told = notification(maybe_repeat=True)
    webhook(told)
    receipt = bot(told)
    bot(told, previous=receipt)
    assert len(slack.messages) == 3
    assert all("may be a repeat" in message["text"] for message in slack.messages.values())
    assert "may be a repeat" in shown(slack.top[0])


@pytest.mark.parametrize(
    ("error", "retryable", "reason"),
    [
        ("invalid_auth", False, FailureReason.REJECTED),
        ("channel_not_found", False, FailureReason.REJECTED),
        ("not_in_channel", False, FailureReason.REJECTED),
        ("is_archived", False, FailureReason.REJECTED),
        ("ratelimited", True, FailureReason.RATE_LIMITED),
        ("internal_error", True, FailureReason.SERVER_ERROR),
        ("service_unavailable", True, FailureReason.SERVER_ERROR),
        ("never heard of", False, FailureReason.REJECTED),
    ],
)
@pytest.mark.parametrize("way", ["bot", "webhook"])
def test_a_refusal_with_status_200(
    slack: Slack,
    request: pytest.FixtureRequest,
    way: str,
    error: str,
    retryable: bool,
    reason: FailureReason,
) -> None:
    body = f'{{"ok": false, "error": "{error}"}}'
    slack.troubles.append(Trouble(200, body, {"Retry-After": "3"}))
    with pytest.raises(DeliveryError, match=f"Slack refused it: {error}") as caught:
        request.getfixturevalue(way)(notification())
    assert (caught.value.retryable, caught.value.reason) == (retryable, reason)
    assert caught.value.retry_after == 3_000
    assert Slack.TOKEN not in str(caught.value)


def test_a_wrong_token_and_an_unknown_channel(slack: Slack, base: str) -> None:
    def sends(token: str, channel: str) -> Send:
        return through(lambda client: SlackBot("s", f"{base}/api", lambda: token, channel, client))

    with pytest.raises(DeliveryError, match="invalid_auth"):
        sends("xoxb-wrong", "#alerts")(notification())
    with pytest.raises(DeliveryError, match="channel_not_found"):
        sends(Slack.TOKEN, "#nowhere")(notification())


def test_more_than_a_channel_takes_is_for_later(slack: Slack, bot: Send, webhook: Send) -> None:
    slack.gap = 60
    webhook(notification())
    for send in (webhook, bot):
        with pytest.raises(DeliveryError, match="429") as caught:
            send(notification())
        assert caught.value.retryable
        assert caught.value.retry_after == 1_000
        assert not caught.value.maybe_delivered


def test_an_answer_that_does_not_come_may_be_a_message(slack: Slack, bot: Send) -> None:
    for trouble in (Trouble(seconds=1.5), Trouble(drop=True, after_taking=True)):
        slack.troubles.append(trouble)
        with pytest.raises(DeliveryError) as caught:
            bot(notification(), timeout=0.5)
        assert caught.value.retryable
        assert caught.value.maybe_delivered


def test_what_is_not_slack_is_told_apart(slack: Slack, bot: Send) -> None:
    slack.troubles.append(Trouble(200, "<html>a proxy says hello</html>"))
    with pytest.raises(DeliveryError, match="its answer is not Slack's"):
        bot(notification())


@pytest.mark.parametrize("way", ["bot", "webhook"])
def test_where_blocks_are_refused_one_line_arrives(
    slack: Slack, request: pytest.FixtureRequest, way: str
) -> None:
    refused = (
        Trouble(400, "invalid_blocks")
        if way == "webhook"
        else Trouble(200, '{"ok": false, "error": "invalid_blocks"}')
    )
    slack.troubles.append(refused)
    receipt = request.getfixturevalue(way)(notification())
    (message,) = slack.top
    assert message["text"].startswith("FIRING: chat")
    assert not blocks_of(message)
    assert "plain text" in receipt.detail


HOSTILE = (
    "<!channel> <!here|x> @channel @here @everyone <@U123> <#C123> <!subteam^S1> "
    "<https://evil.example|Runbook> *bold* _it_ ~no~ ``` ` :fire: &lt;!here&gt; \u202egnp\x1b[2J"
)
OWN_LINK = re.compile(r"<(https://runbooks\.example|http://watch:9469)/[^<>|]*\|\w+>")


def inert(body: dict[str, Any]) -> None:
    """Asserts that a message has no markup but our own."""
    for kind, text in (*text_objects(body), ("mrkdwn", body["text"])):
        rest = OWN_LINK.sub("", text) if kind == "mrkdwn" else text
        assert "<" not in rest
        assert ">" not in rest
        assert not re.search(r"@\w", rest)
        assert not re.search(r"&(?!amp;|lt;|gt;)", text)
        assert all(c.isprintable() or c in "\n\u200b" for c in rest)
    for block in blocks_of(body):
        for each in (block.get("text"), *block.get("fields", ()), *block.get("elements", ())):
            if each and each["type"] == "mrkdwn":
                assert each["verbatim"] is True
                marks = each["text"].count("`")
                assert marks in {0, 2, 6}
            elif each:
                assert each["emoji"] is False


def everywhere(text: str) -> Notification:
    labels = dict.fromkeys(("deployment", "instance", "model", "runtime", "gpu"), text)
    hostile = replace(
        saying(summary=text, description=text, impact=text, evidence=text, threshold=text),
        labels=FIRED.labels.with_(**labels),
    )
    return notification(hostile, hostile)


def test_hostile_text_pings_nobody_and_forges_nothing() -> None:
    inert(slack_message.message(everywhere(HOSTILE)))
    note = slack_message.note(everywhere(HOSTILE))
    assert "<" not in note["text"]
    assert not re.search(r"@\w", note["text"])


@given(st.text(min_size=1, max_size=40), st.integers(1, 150), st.integers(1, 20))
@settings(deadline=None, max_examples=30)
def test_any_text_of_any_length_is_taken(text: str, times: int, count: int) -> None:
    one = everywhere(text * times).alerts[0]
    alerts = [replace(one, labels=one.labels.with_(rank=str(n))) for n in range(count)]
    body = slack_message.message(notification(*alerts))
    assert refusal(body) == ""
    inert(body)


def test_alerts_that_do_not_fit_are_counted() -> None:
    alerts = [replace(FIRED, labels=FIRED.labels.with_(rank=str(n))) for n in range(100)]
    body = slack_message.message(notification(*alerts))
    assert refusal(body) == ""
    instances = shown(body).count("*Instance*")
    assert 5 < instances < 50
    assert f"and {100 - instances} more" in shown(body)


def test_what_is_cut_says_so() -> None:
    body = slack_message.message(notification(saying(evidence="&" * 5_000)))
    assert refusal(body) == ""
    assert "… (cut)" in shown(body)
    assert not re.search(r"&(?!amp;)", shown(body).replace("&gt;", ""))
