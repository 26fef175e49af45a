"""GETs a page from a server that may be slow, hostile, or somebody else."""

from __future__ import annotations

import os
import ssl
import zlib
from http.client import responses
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Final, NamedTuple, cast
from urllib.parse import urlsplit

import httpx

from enginewatch.collect.connection import KeptConnection
from enginewatch.config import HttpConfig, TlsConfig
from enginewatch.errors import EnginewatchError
from enginewatch.model import ScrapeFailure

_MOST_REDIRECTS: Final = 5
_BROKEN: Final = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)
_FAILURES: Final = (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError)
_UNUSED: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For plain HTTP; httpx would load all authorities of the system for each target."""
_GZIP: Final = 16 + zlib.MAX_WBITS
_HINTS: Final = {
    401: "check authorization or basic_auth of the job",
    403: "check authorization or basic_auth of the job",
    404: "is metrics_path right?",
    405: "is metrics_path right?",
}


class FetchError(EnginewatchError):
    """There is no page: no connection, no answer, another status, or too much of it."""

    def __init__(self, what: str, *, hint: str = "", reason: ScrapeFailure = ScrapeFailure.CONNECT):
        super().__init__(what, hint=hint)
        self.reason: Final = reason


class Answer(NamedTuple):
    status: int
    content_type: str
    body: bytes


class TlsSettings:
    """The TLS context of jobs with the same settings, made again when one of its files changes."""

    def __init__(self, settings: TlsConfig):
        self._settings: Final = settings
        self._versions: tuple[int, ...] | None = None
        self._context: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext:
        """The same object as long as the files are the same. Raises ConfigError."""
        versions = self._settings.versions()
        if self._context is None or versions != self._versions:
            self._context, self._versions = self._settings.context(), versions
        return self._context


class Fetcher:
    """Fetches one target's page over a connection of its own, kept open in between.

    `transport` replaces the network in tests. Nothing here has a deadline: the
    caller has one for the whole scrape.
    """

    def __init__(
        self,
        settings: HttpConfig,
        tls: TlsSettings,
        *,
        body_limit: int,
        transport: httpx.AsyncBaseTransport | None = None,
    ):
        self._settings: Final = settings
        self._tls: Final = tls
        self._body_limit: Final = body_limit
        self._transport: Final = transport
        self._connection: httpx.AsyncBaseTransport | None = None
        self._context: ssl.SSLContext | None = None
        self._served = False
        self.received: int | None = None
        """Bytes of the page so far, None while waiting for an answer: what a timeout tells."""

    async def get(self, url: httpx.URL, headers: dict[str, str]) -> Answer:
        """The page. Raises FetchError, and ConfigError for secrets that can't be read."""
        authorization = self._settings.auth_header()
        if authorization is not None:
            headers = {**headers, "Authorization": authorization}
        kept_open = self._served
        try:
            return await self._get(url, headers)
        except _BROKEN as failure:
            # A server closes a connection that was idle for a while (uvicorn after 5 s, our
            # usual interval) just as it is used again. That says nothing about the server.
            if not kept_open or self.received is not None:
                raise _failed(failure) from None
        except _FAILURES as failure:
            raise _failed(failure) from None
        try:
            return await self._get(url, headers)
        except _FAILURES as failure:
            raise _failed(failure) from None

    async def _get(self, url: httpx.URL, headers: dict[str, str]) -> Answer:
        self.received, self._served = None, False
        request = httpx.Request("GET", url, headers=headers)
        if self._settings.tls_config.server_name:
            request.extensions["sni_hostname"] = self._settings.tls_config.server_name
        response = await self._send(request, await self._ready(url))
        try:
            answer = await self._answer(response)
        finally:
            await response.aclose()
        self._served = True
        return answer

    async def close(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            await connection.aclose()

    async def _ready(self, url: httpx.URL) -> httpx.AsyncBaseTransport:
        may_be_tls = url.scheme == "https" or self._settings.follow_redirects
        context = self._tls.context() if may_be_tls else _UNUSED
        if self._connection is not None and context is not self._context:
            await self.close()
        if self._connection is None:
            self._context = context
            self._connection = self._transport or KeptConnection(context)
        return self._connection

    async def _send(
        self, request: httpx.Request, connection: httpx.AsyncBaseTransport
    ) -> httpx.Response:
        if not self._settings.follow_redirects:
            return await connection.handle_async_request(request)
        client = httpx.AsyncClient(
            transport=connection,
            timeout=None,  # noqa: S113  the caller's deadline covers the whole scrape
            follow_redirects=True,
            max_redirects=_MOST_REDIRECTS,
            trust_env=False,
            # Cookies would be a way for a server to fill our memory.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        )
        return await client.send(request, stream=True)

    async def _answer(self, response: httpx.Response) -> Answer:
        if response.status_code != 200:
            raise _refusal(response)
        body = _Body(response.headers.get("content-encoding", ""), self._body_limit)
        self.received = 0
        # Not aiter_raw(): it refuses the responses of a mock transport.
        async for chunk in cast(httpx.AsyncByteStream, response.stream):
            self.received += len(chunk)
            body.add(chunk)
        return Answer(response.status_code, response.headers.get("content-type", ""), body.whole())


class _Body:
    """Puts a page together, unpacks it, and stops when it is too long."""

    def __init__(self, encoding: str, limit: int):
        encoding = encoding.strip().lower()
        if encoding not in {"", "identity", "gzip"}:
            raise FetchError(
                f"the page is encoded as {encoding[:40]!r}",
                hint="gzip, or nothing, was asked for",
                reason=ScrapeFailure.FORMAT,
            )
        self._limit: Final = limit
        self._chunks: list[bytes] = []
        self._size = 0
        self._unpack = zlib.decompressobj(_GZIP) if encoding == "gzip" else None

    def add(self, chunk: bytes) -> None:
        while chunk:
            plain, chunk = (chunk, b"") if self._unpack is None else self._unpacked(chunk)
            self._size += len(plain)
            if 0 < self._limit < self._size:
                raise FetchError(
                    f"the page is over the body_size_limit of {self._limit} bytes",
                    hint="raise body_size_limit of the job if this target can be trusted",
                    reason=ScrapeFailure.TOO_LARGE,
                )
            self._chunks.append(plain)

    def _unpacked(self, chunk: bytes) -> tuple[bytes, bytes]:
        """As much plain text as may still come, and what is left to unpack."""
        assert self._unpack is not None
        if self._unpack.eof:  # gzip files may be several, one after the other
            self._unpack = zlib.decompressobj(_GZIP)
        # Never more than one byte over the limit, however much a small chunk unfolds to.
        room = self._limit - self._size + 1 if self._limit else 0
        try:
            plain = self._unpack.decompress(chunk, room)
        except zlib.error:
            raise FetchError(
                "the page says it is gzip and is not", reason=ScrapeFailure.FORMAT
            ) from None
        return plain, self._unpack.unconsumed_tail or self._unpack.unused_data

    def whole(self) -> bytes:
        if self._unpack is not None and not self._unpack.eof:
            raise FetchError("the gzip page was cut off", reason=ScrapeFailure.FORMAT)
        return b"".join(self._chunks)


def _refusal(response: httpx.Response) -> FetchError:
    status = response.status_code
    if response.has_redirect_location:
        return FetchError(
            f"redirected to {_without_secrets(response.headers['location'])}, and not followed",
            hint="scrape that address, or set follow_redirects: true",
            reason=ScrapeFailure.REDIRECT,
        )
    # Not the server's own phrase, which may be anything.
    return FetchError(
        f"HTTP {status} {responses.get(status, '')}".rstrip(),
        hint=_HINTS.get(status, ""),
        reason=ScrapeFailure.HTTP_STATUS,
    )


def _without_secrets(location: str) -> str:
    """A URL as far as it can be shown: no credentials, no query."""
    try:
        parts = urlsplit(location)
        host = f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname or ""
    except ValueError:
        return "a place that is no URL"
    scheme = f"{parts.scheme}://" if parts.scheme else ""
    return repr(f"{scheme}{host}{parts.path}"[:200])


def _failed(failure: Exception) -> FetchError:
    if isinstance(failure, httpx.TooManyRedirects):
        return FetchError(f"more than {_MOST_REDIRECTS} redirects", reason=ScrapeFailure.REDIRECT)
    return FetchError(_cause(failure))


def _cause(failure: Exception) -> str:
    """The innermost cause that a person can act on, in a few words."""
    found = str(failure) or type(failure).__name__
    cause: BaseException | None = failure
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"TLS: certificate refused: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError):
            return f"TLS: {cause.reason or cause}"
        if isinstance(cause, OSError) and cause.strerror:
            # asyncio puts its own words where the system's would be; a failed look-up
            # of a name has a negative number, and its own words are the right ones.
            number = cause.errno or 0
            found = os.strerror(number) if number > 0 else cause.strerror
        cause = cause.__cause__ or cause.__context__
    return found
