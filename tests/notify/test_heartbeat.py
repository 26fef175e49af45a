"""The dead man's switch calls while all is well, and stops when it is not; its URL stays secret."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from tests.support.server import serve

from enginewatch.config import parse_config
from enginewatch.notify.heartbeat import Heartbeat


class Switch:
    """What is called: remembers when, and answers as told."""

    def __init__(self) -> None:
        self.calls: list[str | None] = []
        self.status = 200
        self.trouble: str | None = None

    def app(self) -> Starlette:
        async def call(request: Request) -> Response:
            self.calls.append(request.headers.get("authorization"))
            return PlainTextResponse("ok", self.status)

        return Starlette(routes=[Route("/ping/secret", call)])

    def heartbeat(self, url: str, more: str = "") -> Heartbeat:
        text = f"heartbeat: {{url: '{url}/ping/secret', interval: 30ms{more}}}"
        config = parse_config(text, Path("e.yml")).heartbeat
        assert config is not None
        return Heartbeat(config, lambda: self.trouble, lambda: 42)


@pytest.fixture
def switch() -> Switch:
    return Switch()


def beat(heart: Heartbeat) -> bool:
    async def main() -> bool:
        try:
            return await heart.beat()
        finally:
            await heart.close()

    return asyncio.run(main())


def test_it_beats_at_its_interval(switch: Switch) -> None:
    async def main(heart: Heartbeat) -> None:
        running = asyncio.create_task(heart.run())
        async with asyncio.timeout(10):
            while len(switch.calls) < 4:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    with serve(switch.app()) as url:
        heart = switch.heartbeat(url, ", http_config: {authorization: {credentials: k}}")
        asyncio.run(main(heart))
    assert switch.calls[0] == "Bearer k"
    assert heart.beaten_at == 42
    assert heart.failures == 0


def test_it_stops_while_something_is_wrong(
    switch: Switch, caplog: pytest.LogCaptureFixture
) -> None:
    switch.trouble = "the rules were last evaluated 5m ago"
    with serve(switch.app()) as url:
        heart = switch.heartbeat(url)

        async def main() -> None:
            assert not await heart.beat()
            assert not await heart.beat()
            switch.trouble = None
            assert await heart.beat()
            await heart.close()

        asyncio.run(main())
    assert len(switch.calls) == 1
    assert caplog.text.count("no heartbeat: the rules were last evaluated 5m ago") == 1


@pytest.mark.parametrize("status", [301, 404, 500])
def test_another_answer_than_yes_was_not_heard(
    switch: Switch, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    switch.status = status
    with serve(switch.app()) as url:
        heart = switch.heartbeat(url)
        assert not beat(heart)
    assert heart.failures == 1
    assert f"answered {status}" in caplog.text
    assert "secret" not in caplog.text


def test_a_url_that_cannot_be_reached_stays_secret(
    switch: Switch, caplog: pytest.LogCaptureFixture
) -> None:
    heart = switch.heartbeat("http://127.0.0.1:9")
    assert not beat(heart)
    assert "could not be reached: ConnectError" in caplog.text
    assert "secret" not in caplog.text
    assert "127.0.0.1" not in caplog.text


def test_a_secret_file_that_is_missing_is_told(caplog: pytest.LogCaptureFixture) -> None:
    config = parse_config("heartbeat: {url_file: nowhere}", Path("/none/e.yml")).heartbeat
    assert config is not None
    transport = httpx.MockTransport(lambda _: httpx.Response(200))
    heart = Heartbeat(config, lambda: None, lambda: 0, transport)
    assert not beat(heart)
    assert "can't read the secret" in caplog.text
