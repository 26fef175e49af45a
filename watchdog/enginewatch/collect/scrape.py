"""One scrape of one target: a page within the deadline, or why there is none."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import httpx

from enginewatch import __version__
from enginewatch.collect.deadline import within
from enginewatch.collect.http import Fetcher, FetchError, TlsSettings
from enginewatch.collect.target import ScrapeTarget
from enginewatch.errors import EnginewatchError
from enginewatch.exposition import ACCEPT
from enginewatch.model import Millis, ScrapeFailure
from enginewatch.recording import ScrapeEvent
from enginewatch.units import format_duration


def wall_clock() -> Millis:
    return time.time_ns() // 1_000_000


def steady_clock() -> Millis:
    """Goes on evenly whoever sets the wall clock; counts from nowhere in particular."""
    return time.monotonic_ns() // 1_000_000


class Scraper:
    """Scrapes one target.

    `clock` tells Unix milliseconds, `timer` seconds that only go forward, and `lag`
    the seconds that this process has been late with everything (see `LagClock`).
    """

    def __init__(
        self,
        target: ScrapeTarget,
        tls: TlsSettings,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        clock: Callable[[], Millis] = wall_clock,
        timer: Callable[[], float] = time.perf_counter,
        lag: Callable[[], float] = lambda: 0.0,
    ):
        self._target: Final = target
        self._url: Final = httpx.URL(target.target.url)
        self._clock: Final = clock
        self._timer: Final = timer
        self._lag: Final = lag
        self._headers: Final = {
            "Accept": ACCEPT,
            "Accept-Encoding": "gzip",
            "User-Agent": f"enginewatch/{__version__}",
            "X-Prometheus-Scrape-Timeout-Seconds": f"{target.timeout / 1000:g}",
        }
        self._fetcher: Final = Fetcher(
            target.job, tls, body_limit=target.limits.body_size, transport=transport
        )

    async def scrape(self) -> ScrapeEvent:
        """The page as it is now. Never raises: what went wrong is in the event's `error`."""
        labels, at, began = self._target.target.labels, self._clock(), self._timer()
        try:
            fetching = self._fetcher.get(self._url, self._headers)
            answer = await within(self._target.timeout / 1000, fetching, self._lag)
        except TimeoutError:
            error, reason = self._late(), ScrapeFailure.TIMEOUT
        except FetchError as failure:
            error, reason = str(failure), failure.reason
        except EnginewatchError as failure:  # a secret or a TLS file that can't be read
            error, reason = str(failure), ScrapeFailure.CONFIGURATION
        else:
            spent = self._timer() - began
            return ScrapeEvent(labels, at, answer.body, spent, answer.status, answer.content_type)
        spent = self._timer() - began
        return ScrapeEvent(labels, at, None, spent, error=error, reason=reason)

    def _late(self) -> str:
        received = self._fetcher.received
        stage = "without an answer" if received is None else f"after {received} bytes of the page"
        return f"timed out after {format_duration(self._target.timeout)}, {stage}"

    async def close(self) -> None:
        await self._fetcher.close()
