"""A client of NCCL's RAS socket: one connection, a few lines there, one account back.

The protocol is lines of text (NVIDIA/nccl at 12df1a11, src/ras/client_support.cc,
rasClientEventLoop; its own client is src/ras/client.cc). Since NCCL 2.28.7 the account
can be had in JSON; an older one answers that it knows no such command. 2.28.9 leaves out a
comma as soon as a rank is missing (measured: tests/data/ras), so text stays the way out.

All processes of a job listen at the same address (SO_REUSEPORT), and the kernel chooses
who gets a connection. One that is stopped gets its share, and never answers: so a
greeting has a second, and then another connection is made.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, NamedTuple

from enginewatch.collect.deadline import within
from enginewatch.collect.ras_report import RasError, Reason

_PROTOCOL: Final = b"2"
"""NCCL_RAS_CLIENT_PROTOCOL of NCCL 2.24 to 2.31. Servers ignore the client's and tell theirs."""
_GREETING: Final = 1.0
"""Seconds; those of NCCL's own client."""
_MOST_GREETINGS: Final = 5
_NCCL_TIMEOUT: Final = 5
"""Seconds that NCCL waits for a process of the job, its own default; as many more may pass."""
_AS_JSON: Final = b"SET FORMAT json"
_LINE: Final = 4096
_MOST: Final = 8 << 20
_HELLO: Final = b"SERVER PROTOCOL "


class Answer(NamedTuple):
    """`unanswered` connections were accepted, and nobody spoke: a process of the job is stopped."""

    text: str
    is_json: bool
    protocol: str
    unanswered: int


async def ask(
    host: str, port: int, seconds: float, lag: Callable[[], float], *, as_json: bool = True
) -> Answer:
    """The account of the job that listens there, within so many seconds; in text where JSON is
    not to be had, or not wanted. Raises RasError."""
    where = f"{host}:{port}"
    settings = [b"TIMEOUT %d" % _NCCL_TIMEOUT, *([_AS_JSON] if as_json else ())]
    try:
        return await within(seconds, _ask(host, port, settings, lag), lag)
    except TimeoutError:
        raise RasError(Reason.TIMEOUT, f"no answer in {seconds:g} s", where=where) from None
    except ConnectionRefusedError:
        raise RasError(Reason.REFUSED, "nobody listens", where=where) from None
    except OSError as failure:
        raise RasError(Reason.UNREACHABLE, str(failure), where=where) from None
    except RasError as failure:
        raise RasError(failure.reason, failure.what, where=where) from None


async def _ask(host: str, port: int, settings: Sequence[bytes], lag: Callable[[], float]) -> Answer:
    for unanswered in range(_MOST_GREETINGS):
        async with _connected(host, port) as (reader, writer):
            writer.write(b"CLIENT PROTOCOL " + _PROTOCOL + b"\n")
            try:
                hello = await within(_GREETING, _line(reader), lag)
            except TimeoutError:
                continue
            if not hello.startswith(_HELLO):
                raise RasError(Reason.NOT_NCCL, f"it is no NCCL, and says {hello[:80]!r}")
            protocol = hello.removeprefix(_HELLO).decode("ascii", "replace")
            text, is_json = await _account(reader, writer, settings)
            return Answer(text, is_json, protocol, unanswered)
    raise RasError(Reason.TIMEOUT, f"{_MOST_GREETINGS} connections were accepted, and nobody spoke")


async def _account(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, settings: Sequence[bytes]
) -> tuple[str, bool]:
    """A refusal of a setting is an answer too: then it is as it was."""
    writer.write(b"".join(each + b"\n" for each in settings))
    taken = {each: await _line(reader) == b"OK" for each in settings}
    is_json = taken.get(_AS_JSON, False)
    writer.write(b"VERBOSE STATUS\n")
    parts: list[bytes] = []
    size = 0
    while part := await reader.read(1 << 16):
        parts.append(part)
        size += len(part)
        if size > _MOST:
            raise RasError(Reason.UNREADABLE, f"an account of more than {_MOST >> 20} MiB")
    return b"".join(parts).decode("utf-8", "replace"), is_json


async def _line(reader: asyncio.StreamReader) -> bytes:
    try:
        return (await reader.readuntil(b"\n")).rstrip(b"\r\n")
    except asyncio.IncompleteReadError as failure:
        if failure.partial:
            raise RasError(Reason.NOT_NCCL, f"it says {failure.partial[:80]!r}, and ends") from None
        raise RasError(Reason.CUT_OFF, "the connection was closed before an answer") from None
    except asyncio.LimitOverrunError:
        raise RasError(Reason.NOT_NCCL, "it answers in no lines") from None


@asynccontextmanager
async def _connected(
    host: str, port: int
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(host, port, limit=_LINE)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
