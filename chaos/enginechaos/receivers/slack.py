"""Slack's Web API as a bot sees it: chat.postMessage and chat.update, within Block Kit's limits.

api.slack.com/reference/block-kit/blocks; Slack refuses with HTTP 200 and `"ok": false`.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from enginechaos.receivers.inbox import Delivery, Inbox
from enginechaos.receivers.provider import Provider

TOKEN: Final = "xoxb-enginechaos"  # noqa: S105 - a token of nobody
CHANNEL: Final = "C0ENGINECHAOS"
_STATUS: Final = re.compile(r"\s*(FIRING|RESOLVED)\b")
_RUNBOOK: Final = re.compile(r"/runbooks/(\w+)\.md")
_SEVERITIES: Final = {"#d32f2f": "page", "#f9a825": "ticket", "#1976d2": "info"}
_LIMITS: Final = {"header": 150, "section": 3_000}


class Slack(Provider):
    """A message says its verdict by its runbook and its severity by its colour, as to a person."""

    name = "slack"

    def __init__(self, inbox: Inbox):
        super().__init__(inbox)
        self.messages: dict[str, dict[str, Any]] = {}
        """By `ts`, as they look now; those in a thread have `thread_ts`."""

    def settings(self, base: str) -> dict[str, Any]:
        bot = {"app_token": TOKEN, "channel": CHANNEL, "app_url": f"{base}/slack/api"}
        return {"slack_configs": [bot]}

    def routes(self) -> list[Route]:
        return [
            self.post("/slack/api/chat.postMessage", self._post),
            self.post("/slack/api/chat.update", self._update),
        ]

    async def _post(self, body: dict[str, Any], request: Request) -> Response:
        thread = body.get("thread_ts")
        wrong = self._wrong(body, request)
        if not wrong and thread is not None and thread not in self.messages:
            wrong = "thread_not_found"
        if wrong:
            return self.no(wrong, 200, {"ok": False, "error": wrong})
        ts = f"{time.time():.3f}{len(self.messages):03d}"
        self.messages[ts] = dict(body)
        if thread is None:
            self._heard(ts, body)
        return JSONResponse({"ok": True, "channel": CHANNEL, "ts": ts})

    async def _update(self, body: dict[str, Any], request: Request) -> Response:
        ts = str(body.get("ts"))
        wrong = self._wrong(body, request)
        if not wrong and ts not in self.messages:
            wrong = "message_not_found"
        if wrong:
            return self.no(wrong, 200, {"ok": False, "error": wrong})
        self.messages[ts] |= body
        self._heard(ts, self.messages[ts])
        return JSONResponse({"ok": True, "channel": CHANNEL, "ts": ts})

    def _wrong(self, body: dict[str, Any], request: Request) -> str:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return "invalid_auth"
        if body.get("channel") != CHANNEL:
            return "channel_not_found"
        return fault(body)

    def _heard(self, ts: str, body: dict[str, Any]) -> None:
        status = _STATUS.match(str(body.get("text", "")))
        shown = json.dumps([list(blocks_of(body)), body.get("attachments")])
        runbook = _RUNBOOK.search(shown)
        colours = (str(each.get("color")) for each in body.get("attachments") or ())
        self.inbox.take(
            Delivery(
                at=time.time(),
                receiver=self.name,
                key=ts,
                firing=status is None or status[1] == "FIRING",
                verdict=runbook[1] if runbook else "",
                deployment=facts_of(body).get("deployment", ""),
                severity=_SEVERITIES.get(next(colours, ""), ""),
                headline=str(body.get("text", "")),
                alerts=frozenset([shown]),
                body=dict(body),
            )
        )


def blocks_of(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from body.get("blocks") or ()
    for attachment in body.get("attachments") or ():
        yield from attachment.get("blocks") or ()


def facts_of(body: dict[str, Any]) -> dict[str, str]:
    """The fields of a message's sections, `*Name*` above `` `value` ``, names in small letters."""
    found: dict[str, str] = {}
    for block in blocks_of(body):
        for shown in block.get("fields") or ():
            name, _, value = str(shown.get("text", "")).partition("\n")
            found.setdefault(name.strip("* ").lower(), value.strip("` "))
    return found


def fault(body: dict[str, Any]) -> str:
    """Slack's word for what is wrong with a message, or nothing."""
    if not (body.get("text") or body.get("blocks")):
        return "no_text"
    if len(str(body.get("text", ""))) > 40_000:
        return "msg_too_long"
    blocks = list(blocks_of(body))
    if len(blocks) > 50 or any(map(_bad, blocks)):
        return "invalid_blocks"
    return ""


def _bad(block: dict[str, Any]) -> bool:
    kind, text, fields = block.get("type"), block.get("text"), block.get("fields") or []
    if kind == "context":
        return not 0 < len(block.get("elements") or ()) <= 10
    if kind not in _LIMITS or (text is None and not fields) or len(fields) > 10:
        return True
    too_long = text is not None and not 0 < len(text["text"]) <= _LIMITS[kind]
    return too_long or any(not 0 < len(each["text"]) <= 2_000 for each in fields)
