"""Servers on loopback that behave as badly as a test wants, in the test's own event loop."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import cast

import trustme

from enginewatch.collect.http import TlsSettings
from enginewatch.collect.scrape import Scraper
from enginewatch.collect.target import ScrapeTarget, make_target
from enginewatch.config import parse_config

Request = dict[str, str]
Behaviour = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]
PAGE = b"a 1\nb 2\n"


@asynccontextmanager
async def serving(behave: Behaviour, context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Answer every request by `behave`; yields host:port."""
    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(cast("asyncio.Task[None]", asyncio.current_task()))
        # Gone is the client, or the test; asyncio's streams log a cancelled handler.
        with suppress(asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
            while True:
                await behave(_parsed(await reader.readuntil(b"\r\n\r\n")), writer)
                await writer.drain()
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        for _ in range(5):
            await asyncio.sleep(0)  # a connection just accepted gets its handler
        server.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


def _parsed(head: bytes) -> Request:
    first, *lines = head.decode().split("\r\n")[:-2]
    return {"": first, **{k.lower(): v for k, _, v in (line.partition(": ") for line in lines)}}


def answer(body: bytes = PAGE, *headers: str, status: str = "200 OK") -> bytes:
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def always(body: bytes = PAGE, *headers: str, status: str = "200 OK") -> Behaviour:
    async def behave(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(body, *headers, status=status))

    return behave


def zipped(body: bytes) -> Behaviour:
    return always(gzip.compress(body), "Content-Encoding: gzip")


async def never(_: Request, __: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def endless(_: Request, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    line = b"a 1\n" * 4096
    while True:
        writer.write(b"%x\r\n%b\r\n" % (len(line), line))
        await writer.drain()


async def stalling(_: Request, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\na 1\n")
    await writer.drain()
    await asyncio.Event().wait()


async def resetting(_: Request, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


def target_at(address: str, settings: str = "", folder: Path = Path()) -> ScrapeTarget:
    """A target of a job with these settings, in YAML's flow style."""
    config = parse_config(f"scrape_configs: [{{job_name: j{settings}}}]", folder / "e.yml")
    return make_target(config, config.scrape_configs[0], address, {})


@asynccontextmanager
async def scraping(target: ScrapeTarget) -> AsyncIterator[Scraper]:
    scraper = Scraper(target, TlsSettings(target.job.tls_config))
    try:
        yield scraper
    finally:
        await scraper.close()


class Authority:
    """A certificate authority with a server and a client, its files in a folder."""

    def __init__(self, folder: Path, *names: str):
        self.authority = trustme.CA()
        self.folder = folder
        self.authority.cert_pem.write_to_path(folder / "ca.pem")
        self.server = self.authority.issue_cert(*(names or ("127.0.0.1",)))
        client = self.authority.issue_cert("client@example")
        client.private_key_pem.write_to_path(folder / "key.pem")
        client.cert_chain_pems[0].write_to_path(folder / "cert.pem")

    def server_context(self, *, ask_client: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server.configure_cert(context)
        if ask_client:
            context.verify_mode = ssl.CERT_REQUIRED
            self.authority.configure_trust(context)
        return context
