"""HTTP/1.1 to one server over one connection, kept open: all that a scrape asks of a client.

httpx's own transport pools, locks and supports several event loops at each step; a
request takes three times as long with it, which was most of what a scrape cost.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

import h11
import httpx

_CHUNK: Final = 1 << 16
_MOST_HEAD: Final = 1 << 16
"""Bytes of headers that a server may send."""


class _Origin(NamedTuple):
    host: str
    port: int
    server_name: str | None
    """For TLS; None where there is none."""


class KeptConnection(httpx.AsyncBaseTransport):
    """A transport for one request at a time; `context` is for https."""

    def __init__(self, context: ssl.SSLContext):
        self._context: Final = context
        self._line: _Line | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The head of the answer, whose stream has to be closed. Raises OSError where there is
        no connection, and httpx.TransportError where it brings no answer."""
        origin = _origin(request)
        line = self._line
        if line is None or line.origin != origin or not line.is_idle():
            await self.aclose()
            line = self._line = await self._dial(origin)
        try:
            head = await line.ask(request)
        except BaseException:
            line.hang_up()
            raise
        return httpx.Response(
            head.status_code, headers=head.headers.raw_items(), stream=_Stream(line)
        )

    async def aclose(self) -> None:
        if self._line is not None:
            line, self._line = self._line, None
            await line.close()

    async def _dial(self, origin: _Origin) -> _Line:
        tls = None if origin.server_name is None else self._context
        reader, writer = await asyncio.open_connection(
            origin.host, origin.port, ssl=tls, server_hostname=origin.server_name
        )
        return _Line(origin, reader, writer)


def _origin(request: httpx.Request) -> _Origin:
    url = request.url
    if url.scheme != "https":
        return _Origin(url.host, url.port or 80, None)
    name = str(request.extensions.get("sni_hostname") or url.host)
    return _Origin(url.host, url.port or 443, name)


class _Line:
    """An open connection, on which one exchange follows another."""

    def __init__(self, origin: _Origin, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.origin: Final = origin
        self._reader: Final = reader
        self._writer: Final = writer
        self._http: Final = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MOST_HEAD)
        self._served = False

    def is_idle(self) -> bool:
        """Whether the next request may go this way: neither side hung up, or left off midway."""
        gone = self._writer.is_closing() or self._reader.at_eof()
        return not gone and self._http.our_state is h11.IDLE

    async def ask(self, request: httpx.Request) -> h11.Response:
        """Send a request without a body, and wait for the head of the answer."""
        try:
            head = h11.Request(
                method=request.method, target=request.url.raw_path, headers=request.headers.raw
            )
            self._writer.write((self._http.send(head) or b"") + self._ended())
            await self._writer.drain()
        except h11.LocalProtocolError as failure:
            raise httpx.LocalProtocolError(str(failure)) from failure
        except OSError as failure:
            raise httpx.WriteError(str(failure)) from failure
        while True:
            event = await self._event()
            if isinstance(event, h11.Response):
                return event
            if event is h11.PAUSED:
                raise httpx.RemoteProtocolError("the server wants to speak another protocol")

    def _ended(self) -> bytes:
        return self._http.send(h11.EndOfMessage()) or b""

    async def body(self) -> AsyncIterator[bytes]:
        while isinstance(event := await self._event(), h11.Data):
            yield bytes(event.data)

    async def _event(self) -> Any:
        """What the server says next; h11's events have no common type but object."""
        while True:
            try:
                event = self._http.next_event()
                if event is not h11.NEED_DATA:
                    return event
                data = await self._reader.read(_CHUNK)
                if not data and self._http.their_state is h11.SEND_RESPONSE:
                    raise httpx.RemoteProtocolError(self._silence())
                self._http.receive_data(data)
            except h11.RemoteProtocolError as failure:
                raise httpx.RemoteProtocolError(str(failure)) from failure
            except OSError as failure:
                raise httpx.ReadError(str(failure)) from failure

    def _silence(self) -> str:
        told = "Server disconnected without sending a response"
        if self._served or self.origin.server_name is None:
            return told
        # In TLS 1.3 the handshake is over before a server can say what it did not like.
        return f"{told} after the TLS handshake; does it ask for a client certificate?"

    def finish(self) -> None:
        """Be ready for the next request, if this exchange came to its end."""
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            self._served = True
        else:
            self.hang_up()

    def hang_up(self) -> None:
        self._writer.transport.abort()

    async def close(self) -> None:
        self.hang_up()
        with suppress(OSError):
            await self._writer.wait_closed()


class _Stream(httpx.AsyncByteStream):
    """The body of an answer, as it arrives."""

    def __init__(self, line: _Line):
        self._line: Final = line

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._line.body()

    async def aclose(self) -> None:
        self._line.finish()
