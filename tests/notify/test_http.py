"""Answers that never end, in time or in size."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from tests.support.server import serve

from enginewatch.notify.http import LONGEST, check, post
from enginewatch.notify.message import DeliveryError, FailureReason


async def drip(_: Request) -> Response:
    async def body() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"x"
            await asyncio.sleep(0.1)

    return StreamingResponse(body())


async def flood(_: Request) -> Response:
    async def body() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"x" * LONGEST

    return StreamingResponse(body(), 500, {"Retry-After": "2"})


def send(path: str, timeout: float) -> httpx.Response:
    app = Starlette(
        routes=[Route("/drip", drip, methods=["POST"]), Route("/flood", flood, methods=["POST"])]
    )

    async def deliver(url: str) -> httpx.Response:
        async with httpx.AsyncClient(timeout=timeout) as client:
            return await post(client, f"{url}{path}", {}, receiver="r")

    with serve(app) as url:
        return asyncio.run(deliver(url))


def test_a_byte_now_and_then_is_no_answer() -> None:
    begun = time.monotonic()
    with pytest.raises(DeliveryError, match="did not answer in time") as caught:
        send("/drip", timeout=0.3)
    assert time.monotonic() - begun < 9
    assert caught.value.reason is FailureReason.TIMEOUT
    assert caught.value.maybe_delivered


def test_an_endless_answer_is_not_read_to_its_end() -> None:
    answer = send("/flood", timeout=30)
    assert LONGEST < len(answer.content) < 3 * LONGEST
    with pytest.raises(DeliveryError, match="answered 500") as caught:
        check(answer, receiver="r")
    assert caught.value.retry_after == 2_000
    assert len(caught.value.what) < 300
