"""Slack and PagerDuty on loopback: they enforce what the providers document, and fail as told.

Both remember what they took, as the provider would show it to a person.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


@dataclass(frozen=True)
class Trouble:
    """What becomes of one request: a late answer, another answer, or none at all."""

    status: int = 0
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    drop: bool = False
    after_taking: bool = False
    """Whether the provider acts on the request before the answer goes wrong."""


class Provider:
    """Whatever has troubles; the first of `troubles` is for the next request."""

    def __init__(self) -> None:
        self.troubles: deque[Trouble] = deque()
        self.requests: list[tuple[str, dict[str, Any]]] = []
        """(path, JSON body) of every request that was understood, refused ones too."""

    def route(self, path: str, handle: Callable[[Request], Awaitable[Response]]) -> Route:
        async def answer(request: Request) -> Response:
            trouble = self.troubles.popleft() if self.troubles else Trouble()
            taken: Response | None = None
            if trouble.after_taking or not (trouble.status or trouble.drop):
                taken = await handle(request)
            if trouble.seconds:
                await asyncio.sleep(trouble.seconds)
            if trouble.drop:
                return _Dropped()
            if trouble.status:
                return PlainTextResponse(trouble.body, trouble.status, trouble.headers)
            assert taken is not None
            return taken

        return Route(path, answer, methods=["POST"])


class _Dropped(Response):
    """Promises a body and ends without it: the client sees a connection that broke."""

    async def __call__(self, scope: Any, receive: Any, send: Send) -> None:
        length = [(b"content-length", b"100")]
        await send({"type": "http.response.start", "status": 200, "headers": length})


class Slack(Provider):
    """`/webhook` and the Web API's `chat.postMessage` and `chat.update` below `/api`.

    `gap` is the least time in seconds between two messages of a channel.
    """

    TOKEN = "xoxb-not-a-real-token"

    def __init__(self, gap: float = 0.0):
        super().__init__()
        self.gap = gap
        self.channels = {"#alerts": "C0ALERTS", "C0ALERTS": "C0ALERTS"}
        self.messages: dict[str, dict[str, Any]] = {}
        """By `ts`, as they look now; those in a thread have `thread_ts`."""
        self._last = -1e9

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                self.route("/webhook", self.webhook),
                self.route("/api/chat.postMessage", self.post_message),
                self.route("/api/chat.update", self.update),
            ]
        )

    @property
    def top(self) -> list[dict[str, Any]]:
        """The messages in the channel itself."""
        return [m for m in self.messages.values() if "thread_ts" not in m]

    def thread(self, ts: str) -> list[dict[str, Any]]:
        return [m for m in self.messages.values() if m.get("thread_ts") == ts]

    async def webhook(self, request: Request) -> Response:
        body = await self._body(request)
        if limited := self._limited():
            return limited
        error = refusal(body)
        if error:
            return PlainTextResponse(error, 400)
        self._keep(body)
        return PlainTextResponse("ok")

    async def post_message(self, request: Request) -> Response:
        body = await self._body(request)
        channel = self.channels.get(body.get("channel", ""))
        error = self._unknown(request) or ("" if channel else "channel_not_found")
        if not error and body.get("thread_ts", next(iter(self.messages), "")) not in self.messages:
            error = "thread_not_found" if "thread_ts" in body else ""
        if error or (error := refusal(body)):
            return JSONResponse({"ok": False, "error": error})
        if limited := self._limited():
            return limited
        ts = self._keep(body)
        return JSONResponse({"ok": True, "channel": channel, "ts": ts})

    async def update(self, request: Request) -> Response:
        body = await self._body(request)
        # A name is good enough to post to, but not to update in.
        channel = body.get("channel", "")
        error = self._unknown(request)
        if not error and channel not in self.channels.values():
            error = "channel_not_found"
        if not error and body.get("ts") not in self.messages:
            error = "message_not_found"
        if error or (error := refusal(body)):
            return JSONResponse({"ok": False, "error": error})
        self.messages[body["ts"]] |= body
        return JSONResponse({"ok": True, "channel": channel, "ts": body["ts"]})

    async def _body(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(await request.body())
        self.requests.append((request.url.path, body))
        return body

    def _unknown(self, request: Request) -> str:
        given = request.headers.get("authorization")
        return "" if given == f"Bearer {self.TOKEN}" else "invalid_auth"

    def _limited(self) -> Response | None:
        now = time.monotonic()
        if now - self._last < self.gap:
            return PlainTextResponse("ratelimited", 429, {"Retry-After": "1"})
        self._last = now
        return None

    def _keep(self, body: dict[str, Any]) -> str:
        ts = f"1764531946.{len(self.messages):06d}"
        self.messages[ts] = dict(body)
        return ts


def text_objects(body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(type, text) of every text object in a message's blocks."""
    for block in blocks_of(body):
        objects = [block.get("text"), *block.get("fields", ()), *block.get("elements", ())]
        yield from ((each["type"], each["text"]) for each in objects if each)


def blocks_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    attached = [b for a in body.get("attachments", ()) for b in a.get("blocks", ())]
    return [*body.get("blocks", ()), *attached]


def refusal(body: dict[str, Any]) -> str:
    """Slack's word for what is wrong with a message, or nothing."""
    if not (body.get("text") or body.get("blocks")):
        return "no_text"
    if len(body.get("text", "")) > 40_000:
        return "msg_too_long"
    lists = [body.get("blocks", []), *(a.get("blocks", []) for a in body.get("attachments", []))]
    if any(len(each) > 50 for each in lists) or any(map(_bad_block, blocks_of(body))):
        return "invalid_blocks"
    if sum(len(text) for _, text in text_objects(body)) > 13_200:
        return "msg_blocks_too_long"
    return ""


def _bad_block(block: dict[str, Any]) -> bool:
    text, fields = block.get("text"), block.get("fields", [])
    match block["type"]:
        case "header":
            return text["type"] != "plain_text" or not 0 < len(text["text"]) <= 150
        case "section":
            too_long = text is not None and not 0 < len(text["text"]) <= 3_000
            bad_fields = len(fields) > 10 or any(not 0 < len(f["text"]) <= 2_000 for f in fields)
            return too_long or bad_fields or (text is None and not fields)
        case "context":
            return not 0 < len(block["elements"]) <= 10
        case _:
            return True


@dataclass
class Incident:
    """What one `dedup_key` opened, from its first event to its resolve."""

    dedup_key: str
    events: list[dict[str, Any]] = field(default_factory=list)
    open: bool = True


class PagerDuty(Provider):
    """`/v2/enqueue`, for one routing key."""

    KEY = "0123456789abcdef0123456789abcdef"

    def __init__(self) -> None:
        super().__init__()
        self.incidents: list[Incident] = []

    def app(self) -> Starlette:
        return Starlette(routes=[self.route("/v2/enqueue", self.enqueue)])

    async def enqueue(self, request: Request) -> Response:
        raw = await request.body()
        if len(raw) > 512_000:
            return PlainTextResponse("payload too large", 413)
        body: dict[str, Any] = json.loads(raw)
        self.requests.append((request.url.path, body))
        errors = list(event_errors(body, self.KEY))
        if errors:
            said = {"status": "invalid event", "message": "Event object is invalid"}
            return JSONResponse({**said, "errors": errors}, 400)
        self._take(body)
        said = {"status": "success", "message": "Event processed", "dedup_key": body["dedup_key"]}
        return JSONResponse(said, 202)

    def _take(self, body: dict[str, Any]) -> None:
        same = (i for i in self.incidents if i.open and i.dedup_key == body["dedup_key"])
        incident = next(same, None)
        if incident is None:
            if body["event_action"] != "trigger":
                return  # taken, and of no effect
            incident = Incident(body["dedup_key"])
            self.incidents.append(incident)
        incident.events.append(body)
        incident.open = body["event_action"] != "resolve"


def event_errors(body: dict[str, Any], key: str) -> Iterator[str]:
    """What Events API v2 would find wrong with an event."""
    payload = body.get("payload", {})
    if body.get("routing_key") != key:
        yield f"Invalid routing key: {body.get('routing_key')}"
    if body.get("event_action") not in {"trigger", "acknowledge", "resolve"}:
        yield "'event_action' is invalid"
    if not 0 < len(body.get("dedup_key", "")) <= 255:
        yield "Length of 'dedup_key' is incorrect"
    if body.get("event_action") == "trigger":
        if not 0 < len(payload.get("summary", "")) <= 1024:
            yield "Length of 'payload.summary' is incorrect"
        if not payload.get("source"):
            yield "'payload.source' is missing or blank"
        if payload.get("severity") not in {"critical", "error", "warning", "info"}:
            yield "'payload.severity' is invalid"
    for link in body.get("links", ()):
        if not link["href"].startswith(("http://", "https://")):
            yield "'links.href' is invalid"
