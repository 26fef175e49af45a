"""A fleet of synthetic vLLM engines for the benches: real pages whose counters move.

Each engine listens on a loopback address of its own (127.1.0.1, 127.1.0.2, …)
and serves the page of a recorded vLLM server, its numbers moving at the rates
that the recording shows, under a model name of its own. Run as a process of its
own (`python -m bench.fleet --engines 100`), so that its cost is nobody else's.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from enginewatch.recording import ScrapeEvent, read_recording

RECORDING = Path(__file__).parent.parent / "tests" / "data" / "vllm-prefill-flood.prom.xz"
PORT = 18_000


def address(engine: int) -> str:
    """The loopback address of engine number `engine`, counted from 0."""
    return f"127.1.{engine // 250}.{engine % 250 + 1}"


class PageModel:
    """A page as text around numbers, each a line in time fitted through two recorded pages."""

    def __init__(self, first: ScrapeEvent, last: ScrapeEvent):
        assert first.page is not None
        assert last.page is not None
        early, late = _values(first.page), _values(last.page)
        span = (last.at - first.at) / 1000
        self._texts: list[str] = []
        bases: list[float] = []
        slopes: list[float] = []
        pending = ""
        for line in first.page.splitlines():
            key, _, value = line.rpartition(" ")
            if line.startswith("#"):
                pending += line + "\n"
                continue
            self._texts.append(pending + key + " ")
            pending = ""
            bases.append(float(value))
            slopes.append((late.get(key, float(value)) - early[key]) / span)
        self._bases = np.array(bases)
        self._slopes = np.array(slopes)

    def render(self, engine: int, seconds: float) -> bytes:
        """The page of one engine after so many seconds; no two engines run at the same rate."""
        pace = 0.5 + (engine * 0.6180339887) % 1
        numbers = (self._bases + self._slopes * (seconds * pace)).tolist()
        text = "\n".join(map("{}{}".format, self._texts, numbers)) + "\n"
        return text.replace('model_name="', f'model_name="m{engine}-').encode()


def _values(page: str) -> dict[str, float]:
    rows = (line.rpartition(" ") for line in page.splitlines() if line and line[0] != "#")
    return {key: float(value) for key, _, value in rows}


def load_model(recording: Path = RECORDING) -> PageModel:
    """The model of the recording's first quiet minute."""
    pages = list(_pages(recording))
    return PageModel(pages[0], pages[min(60, len(pages) - 1)])


def _pages(recording: Path) -> Iterator[ScrapeEvent]:
    for event in read_recording(recording):
        if isinstance(event, ScrapeEvent) and event.page is not None:
            yield event


class _Engine(asyncio.Protocol):
    """Just enough HTTP/1.1: every request on a connection is answered with the current page."""

    def __init__(self, model: PageModel, engine: int, started: float):
        self._model, self._engine, self._started = model, engine, started
        self._heard = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._heard += data
        while b"\r\n\r\n" in self._heard:
            _, _, self._heard = self._heard.partition(b"\r\n\r\n")
            body = self._model.render(self._engine, time.monotonic() - self._started)
            head = (
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
                f"Content-Length: {len(body)}\r\n\r\n"
            )
            self._transport.write(head.encode() + body)


async def serve(engines: int, port: int) -> None:
    """Serve until cancelled; prints `ready` once every engine listens."""
    model = load_model()
    started = time.monotonic()
    loop = asyncio.get_running_loop()
    servers = [
        await loop.create_server(lambda n=n: _Engine(model, n, started), address(n), port)
        for n in range(engines)
    ]
    print("ready", flush=True)
    await asyncio.gather(*(server.serve_forever() for server in servers))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", type=int, default=100)
    parser.add_argument("--port", type=int, default=PORT)
    arguments = parser.parse_args()
    asyncio.run(serve(arguments.engines, arguments.port))


if __name__ == "__main__":
    main()
