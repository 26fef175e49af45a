"""The dead man's switch: calls a URL for as long as all is well, so that silence means the worst.

What is called must be somebody else's: it raises the alarm when nothing comes. A
daemon that stands still, or that nobody hears, does not call either.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final

import httpx

from enginewatch.config import ConfigError, HeartbeatConfig
from enginewatch.model import Millis

_LOG: Final = logging.getLogger(__name__)


class Heartbeat:
    """`beat` at each interval, and `run` does so. `ailment` tells why not to, or None.

    The URL is a secret: neither logs nor errors show it.
    """

    def __init__(
        self,
        config: HeartbeatConfig,
        ailment: Callable[[], str | None],
        clock: Callable[[], Millis],
        transport: httpx.AsyncBaseTransport | None = None,
    ):
        """Raises ConfigError for TLS files that can't be read."""
        self._config: Final = config
        self._ailment: Final = ailment
        self._clock: Final = clock
        http = config.http_config
        self._client: Final = httpx.AsyncClient(
            verify=http.tls_config.context(),
            timeout=config.timeout / 1000,
            follow_redirects=http.follow_redirects,
            trust_env=False,
            transport=transport,
        )
        self._trouble = ""
        self.beaten_at: Millis = 0
        self.failures = 0

    async def run(self) -> None:
        """Beat until cancelled, at once and then at each interval."""
        loop = asyncio.get_running_loop()
        interval = self._config.interval / 1000
        try:
            while True:
                began = loop.time()
                await self.beat()
                await asyncio.sleep(max(0.0, began + interval - loop.time()))
        finally:
            await self.close()

    async def close(self) -> None:
        """Let go of the connection."""
        with contextlib.suppress(httpx.HTTPError, OSError):
            await self._client.aclose()

    async def beat(self) -> bool:
        """One beat: whether it was heard."""
        trouble = self._ailment()
        if trouble is not None:
            self._note(f"no heartbeat: {trouble}")
            return False
        trouble = await self._call()
        if trouble is not None:
            self.failures += 1
            self._note(f"the heartbeat was not heard: {trouble}")
            return False
        if self._trouble:
            _LOG.info("the heartbeat is heard again")
        self._trouble = ""
        self.beaten_at = self._clock()
        return True

    async def _call(self) -> str | None:
        """What went wrong, or None."""
        try:
            header = self._config.http_config.auth_header()
            headers = {} if header is None else {"Authorization": header}
            answer = await self._client.get(self._config.read_url(), headers=headers)
        except ConfigError as failure:
            return str(failure)
        except httpx.TimeoutException:
            return "no answer in time"
        except httpx.InvalidURL:
            return "its URL is none"
        except httpx.HTTPError as failure:
            # Only the kind: the text may have the host in it, and that may be a secret.
            return f"it could not be reached: {type(failure).__name__}"
        if answer.is_success:
            return None
        return f"answered {answer.status_code} {answer.reason_phrase}"

    def _note(self, trouble: str) -> None:
        if trouble != self._trouble:  # once: it recurs at each interval
            _LOG.error("%s", trouble)
        self._trouble = trouble
