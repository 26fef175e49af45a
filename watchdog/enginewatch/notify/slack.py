"""Slack receivers: an incoming webhook, and a bot that keeps one message an incident up to date.

A webhook can only add messages. A bot (scope `chat:write`) gets a message's `ts` from
`chat.postMessage`; at a change it rewrites that message with `chat.update` and says in
its thread what changed. Slack refuses with HTTP 200 and `"ok": false`, so that is read too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import httpx

from enginewatch.model import Millis
from enginewatch.notify import slack_message
from enginewatch.notify.http import check, post, retry_after_now
from enginewatch.notify.message import (
    DeliveryError,
    FailureReason,
    Notification,
    Reason,
    Receipt,
)

PACE: Final[Millis] = 1_000
"""Slack takes about a message a second for a channel; who keeps asking for more is shut out.
docs.slack.dev/apis/web-api/rate-limits."""

RATE_LIMITED: Final = frozenset({"ratelimited", "rate_limited"})

PASSING: Final = RATE_LIMITED | {
    "fatal_error",
    "internal_error",
    "request_timeout",
    "service_unavailable",
    "team_added_to_org",
}
"""Errors that Slack's manual says another attempt may cure; every other one is final."""

UNSHOWABLE: Final = frozenset(
    {
        "invalid_attachments",
        "invalid_blocks",
        "invalid_blocks_format",
        "invalid_payload",
        "msg_blocks_too_long",
        "msg_too_long",
    }
)
"""Slack does not like how the message looks: one line of plain text is better than nothing."""

GONE: Final = frozenset(
    {
        "cant_update_message",
        "channel_not_found",
        "edit_window_closed",
        "is_inactive",
        "message_not_found",
        "thread_not_found",
    }
)
"""The message to be updated is not there, or can't be changed any more: a new one is due."""


class SlackError(DeliveryError):
    """Slack's own word for why it took nothing, in `error`."""

    def __init__(self, error: str, *, where: str, retry_after: int | None = None):
        if error in RATE_LIMITED:
            reason = FailureReason.RATE_LIMITED
        elif error in PASSING:
            reason = FailureReason.SERVER_ERROR
        else:
            reason = FailureReason.REJECTED
        super().__init__(
            f"Slack refused it: {error}",
            where=where,
            retryable=error in PASSING,
            retry_after=retry_after,
            reason=reason,
            # These come from within Slack, which may have gone on with it.
            maybe_delivered=error in PASSING and error not in RATE_LIMITED,
        )
        self.error = error


@dataclass(frozen=True)
class SlackWebhook:
    """Adds a message at every notification: `url()` is an incoming webhook's."""

    name: str
    url: Callable[[], str]
    client: httpx.AsyncClient
    send_resolved: bool = True

    pace: ClassVar[Millis] = PACE

    async def send(self, notification: Notification, _: Receipt | None = None) -> Receipt:
        try:
            await self._post(slack_message.message(notification))
        except SlackError as refused:
            if refused.error not in UNSHOWABLE:
                raise
            await self._post(slack_message.plain_message(notification))
            return Receipt(detail=f"taken as plain text, refused as blocks: {refused.error}")
        return Receipt(detail="ok")

    async def _post(self, body: Mapping[str, Any]) -> None:
        answer = await post(self.client, self.url(), body, receiver=self.name)
        if answer.status_code == 400 and (said := answer.text.strip()) in UNSHOWABLE:
            raise SlackError(said, where=self.name)
        check(answer, receiver=self.name)
        _ok(answer, self.name, or_else={})

    async def close(self) -> None:
        await self.client.aclose()


@dataclass(frozen=True)
class SlackBot:
    """Posts to `channel` as the bot whose token `token()` is; `api_url` is Slack's Web API."""

    name: str
    api_url: str
    token: Callable[[], str]
    channel: str
    client: httpx.AsyncClient
    send_resolved: bool = True

    pace: ClassVar[Millis] = PACE

    async def send(self, notification: Notification, previous: Receipt | None = None) -> Receipt:
        known = previous.state if previous is not None else {}
        if "ts" not in known or "channel" not in known:
            return await self._begin(notification)
        at = {"channel": known["channel"], "ts": known["ts"]}
        try:
            shown = await self._show("chat.update", at, notification)
            # Last, as it is what an attempt after this one would repeat.
            await self._say(at, notification)
        except SlackError as refused:
            if refused.error not in GONE:
                raise
            begun = await self._begin(notification)
            return Receipt(begun.state, f"{begun.detail}, as the former message is gone")
        return Receipt(at, f"updated {at['channel']} {at['ts']}{shown.remark}")

    async def _begin(self, notification: Notification) -> Receipt:
        shown = await self._show("chat.postMessage", {"channel": self.channel}, notification)
        channel, ts = shown.answer.get("channel"), shown.answer.get("ts")
        if not isinstance(channel, str) or not isinstance(ts, str):
            # Taken all the same: without these the next news makes a message of its own.
            return Receipt(detail="taken, but Slack did not say which message it is")
        return Receipt({"channel": channel, "ts": ts}, f"posted {channel} {ts}{shown.remark}")

    async def _show(self, method: str, at: Mapping[str, str], notification: Notification) -> _Shown:
        try:
            answer = await self._call(method, {**at, **slack_message.message(notification)})
        except SlackError as refused:
            if refused.error not in UNSHOWABLE:
                raise
            # An update that names no blocks would keep the old ones.
            bare = {**slack_message.plain_message(notification), "blocks": [], "attachments": []}
            answer = await self._call(method, {**at, **bare})
            return _Shown(answer, f", as plain text: blocks were refused, {refused.error}")
        return _Shown(answer)

    async def _say(self, at: Mapping[str, str], notification: Notification) -> None:
        """In the thread; a repetition in the channel too, as an update alone alerts nobody."""
        body = {"channel": at["channel"], "thread_ts": at["ts"], **slack_message.note(notification)}
        if notification.reason is Reason.REPEAT:
            body["reply_broadcast"] = True
        await self._call("chat.postMessage", body)

    async def _call(self, method: str, body: Mapping[str, Any]) -> dict[str, Any]:
        token = self.token()
        answer = await post(
            self.client,
            f"{self.api_url.rstrip('/')}/{method}",
            body,
            receiver=self.name,
            headers={"Authorization": f"Bearer {token}"},
        )
        check(answer, receiver=self.name, secrets=(token,))
        return _ok(answer, self.name, or_else=None)

    async def close(self) -> None:
        await self.client.aclose()


@dataclass(frozen=True, slots=True)
class _Shown:
    answer: dict[str, Any]
    remark: str = ""


def _ok(answer: httpx.Response, receiver: str, *, or_else: dict[str, Any] | None) -> dict[str, Any]:
    """The JSON object of a 2xx answer whose `ok` is not false; `or_else` where it holds none.

    Raises DeliveryError.
    """
    try:
        said = answer.json()
    except (json.JSONDecodeError, UnicodeDecodeError):
        said = None
    if not isinstance(said, dict):
        if or_else is not None:
            return or_else
        raise DeliveryError(
            "its answer is not Slack's",
            where=receiver,
            hint="is app_url the Web API's?",
            retryable=True,
            reason=FailureReason.OTHER,
            maybe_delivered=True,
        )
    if said.get("ok") is False:
        error = str(said.get("error", "no reason given"))[:100]
        raise SlackError(error, where=receiver, retry_after=retry_after_now(answer))
    return said
