"""JSON, one object a line, over a socket that a child process was given: API server and engine
core."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any, Final

_LONGEST: Final = 2**26


class Wire:
    """One end. Messages are written whole and in order; `receive` gives None at the end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, given: socket.socket) -> Wire:
        given.setblocking(False)
        return cls(*await asyncio.open_connection(sock=given, limit=_LONGEST))

    def send(self, message: dict[str, Any]) -> None:
        """Raises nothing: where the other end is gone, `receive` tells."""
        self._writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    async def receive(self) -> dict[str, Any] | None:
        try:
            line = await self._reader.readline()
        except (ConnectionError, ValueError):
            return None
        if not line.endswith(b"\n"):
            return None
        found: dict[str, Any] = json.loads(line)
        return found

    async def flush(self) -> None:
        """Until all that was sent is with the other end, or that is gone (ConnectionError)."""
        await self._writer.drain()
        self._writer.close()
        await self._writer.wait_closed()
