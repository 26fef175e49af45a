"""A scrape over real HTTP: what comes back, and how each kind of trouble is told."""

from __future__ import annotations

import asyncio
import gzip
import re
import socket
from pathlib import Path

import httpx
import pytest
from tests.collect.servers import (
    PAGE,
    Authority,
    Behaviour,
    Request,
    always,
    answer,
    endless,
    never,
    resetting,
    scraping,
    serving,
    stalling,
    target_at,
    zipped,
)

from enginewatch.collect.http import TlsSettings
from enginewatch.collect.scrape import Scraper
from enginewatch.exposition import ACCEPT
from enginewatch.model import Labels
from enginewatch.recording import ScrapeEvent

pytestmark = pytest.mark.integration


def scrape(behave: Behaviour, settings: str = "", folder: Path = Path()) -> ScrapeEvent:
    async def once() -> ScrapeEvent:
        async with (
            serving(behave) as address,
            scraping(target_at(address, settings, folder)) as scraper,
        ):
            return await scraper.scrape()

    return asyncio.run(once())


def test_a_page_comes_back_with_its_time_and_type() -> None:
    seen: list[Request] = []

    async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
        seen.append(request)
        writer.write(answer(PAGE, "Content-Type: text/plain; version=0.0.4"))

    async def once() -> ScrapeEvent:
        async with serving(behave) as address:
            target = target_at(address, ", params: {m: [x]}, scrape_timeout: 1500ms")
            ticks = iter([10.0, 10.25])
            scraper = Scraper(
                target,
                TlsSettings(target.job.tls_config),
                clock=lambda: 1234,
                timer=lambda: next(ticks),
            )
            event = await scraper.scrape()
            await scraper.close()
        assert event.labels == Labels(instance=address, job="j", deployment="j")
        return event

    event = asyncio.run(once())
    assert (event.at, event.duration, event.status) == (1234, 0.25, 200)
    assert (event.body, event.content_type) == (PAGE, "text/plain; version=0.0.4")
    (request,) = seen
    assert request[""] == "GET /metrics?m=x HTTP/1.1"
    assert request["accept"] == ACCEPT
    assert request["accept-encoding"] == "gzip"
    assert request["x-prometheus-scrape-timeout-seconds"] == "1.5"
    assert request["user-agent"].startswith("enginewatch/")
    assert "authorization" not in request


@pytest.mark.parametrize("body", [PAGE, PAGE * 100_000, b""])
def test_gzip(body: bytes) -> None:
    assert scrape(zipped(body)).body == body


def test_gzip_in_several_members() -> None:
    packed = gzip.compress(PAGE) + gzip.compress(b"c 3\n")
    assert scrape(always(packed, "Content-Encoding: gzip")).body == PAGE + b"c 3\n"


@pytest.mark.parametrize(
    ("behave", "settings", "error"),
    [
        (always(status="404 Nope"), "", "HTTP 404 Not Found (is metrics_path right?)"),
        (always(status="401 No"), "", "HTTP 401 Unauthorized (check authorization or basic_auth"),
        (always(status="503 Up yours"), "", "HTTP 503 Service Unavailable"),
        (always(status="299 Odd"), "", "HTTP 299"),
        (
            always(b"", "Location: https://u:s3cret@else:1/x?token=s3cret", status="307 X"),
            "",
            "redirected to 'https://else:1/x', and not followed (scrape that address, or set",
        ),
        (always(b"x" * 2000), ", body_size_limit: 1KB", "over the body_size_limit of 1024 bytes"),
        (zipped(b"x" * 2000), ", body_size_limit: 1KB", "over the body_size_limit of 1024 bytes"),
        (zipped(b"\0" * 50_000_000), ", body_size_limit: 1MB", "over the body_size_limit"),
        (endless, ", body_size_limit: 1MB", "over the body_size_limit of 1048576 bytes"),
        (always(gzip.compress(PAGE)[:-9], "Content-Encoding: gzip"), "", "gzip page was cut off"),
        (always(PAGE, "Content-Encoding: gzip"), "", "the page says it is gzip and is not"),
        (always(PAGE, "Content-Encoding: br"), "", "the page is encoded as 'br'"),
        (never, ", scrape_timeout: 50ms", "timed out after 50ms, without an answer"),
        (stalling, ", scrape_timeout: 1s", "timed out after 1s, after 4 bytes of the page"),
        (resetting, "", "Server disconnected without sending a response"),
    ],
)
def test_trouble_is_told(behave: Behaviour, settings: str, error: str) -> None:
    event = scrape(behave, settings)
    assert event.body is None
    assert error in event.error
    assert "s3cret" not in event.error


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"

    async def once() -> ScrapeEvent:
        async with scraping(target_at(address)) as scraper:
            return await scraper.scrape()

    assert asyncio.run(once()).error == "Connection refused"


def test_redirects_are_followed_when_told_to_without_taking_secrets_along() -> None:
    seen: list[Request] = []

    async def elsewhere(request: Request, writer: asyncio.StreamWriter) -> None:
        seen.append(request)
        writer.write(answer())

    async def once() -> ScrapeEvent:
        async with serving(elsewhere) as other:
            there = always(b"", f"Location: http://{other}/x", status="302 Found")
            async with serving(there) as address:
                settings = ", follow_redirects: true, authorization: {credentials: s3cret}"
                async with scraping(target_at(address, settings)) as scraper:
                    return await scraper.scrape()

    assert asyncio.run(once()).body == PAGE
    assert "authorization" not in seen[0]


def test_redirects_without_end() -> None:
    event = scrape(always(b"", "Location: /again", status="302 Found"), ", follow_redirects: true")
    assert event.error == "more than 5 redirects"


@pytest.mark.parametrize(
    ("settings", "header"),
    [
        (", authorization: {credentials_file: token}", "Bearer s3cret"),
        (", authorization: {type: Api-Key, credentials_file: token}", "Api-Key s3cret"),
        (", basic_auth: {username: u, password_file: token}", "Basic dTpzM2NyZXQ="),
    ],
)
def test_credentials(tmp_path: Path, settings: str, header: str) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    seen: list[Request] = []

    async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
        seen.append(request)
        writer.write(answer())

    assert scrape(behave, settings, tmp_path).body == PAGE
    assert seen[0]["authorization"] == header


def test_credentials_that_can_not_be_read(tmp_path: Path) -> None:
    settings = ", authorization: {credentials_file: token}"
    assert "token: can't read the secret: No such" in scrape(always(), settings, tmp_path).error


def test_the_connection_is_kept_and_replaced_when_the_server_closed_it() -> None:
    """uvicorn closes an idle connection after 5 s, which is when the next scrape comes."""
    clients: list[object] = []

    async def behave(_: Request, writer: asyncio.StreamWriter) -> None:
        clients.append(writer.get_extra_info("peername"))
        if len(clients) == 3:
            writer.transport.abort()
        else:
            writer.write(answer())

    async def many() -> list[ScrapeEvent]:
        async with serving(behave) as address, scraping(target_at(address)) as scraper:
            return [await scraper.scrape() for _ in range(4)]

    assert [event.body for event in asyncio.run(many())] == [PAGE] * 4
    first, *_, last = clients
    assert clients == [first, first, first, last, last]


def test_a_server_that_always_hangs_up_is_asked_once() -> None:
    asked: list[Request] = []

    async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
        asked.append(request)
        writer.transport.abort()

    assert scrape(behave).error
    assert len(asked) == 1


def test_a_target_recovers_after_a_timeout() -> None:
    slow = True

    async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
        await (never if slow else always())(request, writer)

    async def twice() -> list[str]:
        nonlocal slow
        async with (
            serving(behave) as address,
            scraping(target_at(address, ", scrape_timeout: 50ms")) as scraper,
        ):
            first = await scraper.scrape()
            slow = False
            return [first.error, (await scraper.scrape()).error]

    assert asyncio.run(twice()) == ["timed out after 50ms, without an answer", ""]


def test_cookies_are_not_kept() -> None:
    seen: list[Request] = []

    async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
        seen.append(request)
        writer.write(answer(PAGE, f"Set-Cookie: c{len(seen)}=1"))

    async def twice() -> None:
        async with serving(behave) as address, scraping(target_at(address)) as scraper:
            await scraper.scrape()
            await scraper.scrape()

    asyncio.run(twice())
    assert "cookie" not in seen[1]


def test_any_transport_will_do() -> None:
    async def once() -> ScrapeEvent:
        target = target_at("engine:8000")
        transport = httpx.MockTransport(lambda request: httpx.Response(200, text=str(request.url)))
        scraper = Scraper(target, TlsSettings(target.job.tls_config), transport=transport)
        return await scraper.scrape()

    assert asyncio.run(once()).body == b"http://engine:8000/metrics"


def scrape_tls(authority: Authority, settings: str, *, ask_client: bool = False) -> ScrapeEvent:
    async def once() -> ScrapeEvent:
        context = authority.server_context(ask_client=ask_client)
        async with serving(always(), context) as address:
            target = target_at(address, f", scheme: https{settings}", authority.folder)
            async with scraping(target) as scraper:
                return await scraper.scrape()

    return asyncio.run(once())


@pytest.mark.parametrize(
    ("name", "settings", "ask_client", "error"),
    [
        ("127.0.0.1", ", tls_config: {ca_file: ca.pem}", False, ""),
        ("127.0.0.1", "", False, "TLS: certificate refused: unable to get local issuer"),
        ("other.example", ", tls_config: {ca_file: ca.pem}", False, "TLS: certificate refused: IP"),
        ("other.example", ", tls_config: {ca_file: ca.pem, server_name: other.example}", False, ""),
        ("other.example", ", tls_config: {insecure_skip_verify: true}", False, ""),
        (
            "127.0.0.1",
            ", tls_config: {ca_file: ca.pem, cert_file: cert.pem, key_file: key.pem}",
            True,
            "",
        ),
        (
            "127.0.0.1",
            ", tls_config: {ca_file: ca.pem}",
            True,
            "reset by|ask for a client certificate",
        ),
        (
            "127.0.0.1",
            ", tls_config: {ca_file: none.pem}",
            False,
            "can't use ca_file: No such",
        ),
    ],
)
def test_tls(tmp_path: Path, name: str, settings: str, ask_client: bool, error: str) -> None:
    event = scrape_tls(Authority(tmp_path, name), settings, ask_client=ask_client)
    if error:
        assert re.search(error, event.error)
    else:
        assert event.body == PAGE


def test_a_new_authority_is_trusted_without_a_restart(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    Authority(old)
    authority = Authority(new)

    async def twice() -> list[ScrapeEvent]:
        async with serving(always(), authority.server_context()) as address:
            target = target_at(address, ", scheme: https, tls_config: {ca_file: ca.pem}", old)
            async with scraping(target) as scraper:
                first = await scraper.scrape()
                (new / "ca.pem").replace(old / "ca.pem")
                return [first, await scraper.scrape()]

    first, second = asyncio.run(twice())
    assert "certificate refused" in first.error
    assert second.body == PAGE
