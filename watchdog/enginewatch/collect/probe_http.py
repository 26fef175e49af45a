"""One probe of one target: a request with our deadline, and how it ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

import httpx

from enginewatch.collect.api import base_of, exchange
from enginewatch.collect.deadline import within
from enginewatch.collect.http import FetchError, TlsSettings
from enginewatch.collect.probe_dialect import (
    Ask,
    Result,
    first_model,
    models_request,
    probe_request,
    result_of,
    server_of,
)
from enginewatch.collect.probe_schedule import Ended
from enginewatch.collect.target import ScrapeTarget
from enginewatch.config import ProbeConfig
from enginewatch.errors import EnginewatchError

_MOST_BYTES: Final = 256 * 1024
"""Of an answer that are read; a list of models can be long, a token is not."""


class ProbeClient:
    """Sends probes to one target, each over a connection of its own.

    A connection that is closed is how an engine learns that nobody waits any more.
    `transport` replaces the network in tests, `timer` tells seconds, `lag` those that
    this process was late with everything.
    """

    def __init__(
        self,
        target: ScrapeTarget,
        settings: ProbeConfig,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        timer: Callable[[], float] = time.perf_counter,
        lag: Callable[[], float] = lambda: 0.0,
    ):
        self._target: Final = target
        self._runtime: Final = target.target.labels.get("runtime", "")
        self._settings: Final = settings
        self._tls: Final = TlsSettings(target.job.tls_config)
        self._transport: Final = transport
        self._timer: Final = timer
        self._lag: Final = lag
        self._base: Final = base_of(target, settings.port)
        self._chat: bool = bool(settings.chat)
        self.model: str | None = settings.model
        self.problem = ""
        """Why the newest probe did not bring a token, for people."""

    async def probe(self) -> Ended:
        """Ask for one token. Never raises."""
        began = self._timer()
        seconds = self._settings.timeout / 1000
        health = asyncio.ensure_future(self._health(seconds))
        try:
            result, status = await within(seconds, self._probe(), self._lag)
        except TimeoutError:
            result, status = self._told(Result.DEADLINE, f"no token within {seconds:g} s")
        except EnginewatchError as failure:  # a secret or a TLS file that can't be read
            result, status = self._told(Result.REFUSED, str(failure))
        except (httpx.ConnectError, httpx.ConnectTimeout, OSError) as failure:
            result, status = self._told(Result.UNREACHABLE, str(failure) or type(failure).__name__)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as failure:
            result, status = self._told(Result.FAILING, str(failure) or type(failure).__name__)
        finally:
            spent = self._timer() - began
            # It had as long as the probe; what is not there now is no answer.
            done, _ = await asyncio.wait({health}, timeout=0.05)
            if not done:
                health.cancel()
                await asyncio.wait({health})
        return Ended(result, spent, status, None if health.cancelled() else health.result())

    async def _probe(self) -> tuple[Result, int]:
        if self.model is None:
            found = await self._find_model()
            if found is not None:
                return found
        assert self.model is not None
        result, status = await self._send(self.model)
        if result is Result.UNSUPPORTED and self._may_change_dialect():
            self._chat = not self._chat
            result, status = await self._send(self.model)
        if self._settings.model is None:
            if result in {Result.REFUSED, Result.UNSUPPORTED}:
                self.model = None  # it may be another one by now
        elif result is Result.UNSUPPORTED:
            result = Result.REFUSED  # 404 is also the answer to a model that is not served
        return self._wanted(result), status

    async def _send(self, model: str) -> tuple[Result, int]:
        ask = probe_request(self._runtime, self._settings, model, chat=self._chat)
        status, _ = await self._request(ask)
        result = result_of(status)
        self.problem = "" if result is Result.ANSWERED else f"{ask.path}: HTTP {status}"
        return result, status

    async def _find_model(self) -> tuple[Result, int] | None:
        """Learn the model's name; how the probe ended already if that can't be done."""
        ask = models_request(self._runtime)
        status, body = await self._request(ask)
        result = result_of(status)
        if result is not Result.ANSWERED:
            self.problem = f"{ask.path}: HTTP {status}"
            return self._wanted(result), status
        self.model = first_model(self._runtime, body)
        if self.model is not None:
            return None
        self.problem = f"{ask.path} lists no model; name one with `model`"
        return self._wanted(Result.UNSUPPORTED), status

    def _wanted(self, result: Result) -> Result:
        """A target that can't be probed is a fault only where somebody asked for it."""
        asked_for = result is Result.UNSUPPORTED and self._settings.enabled
        return Result.REFUSED if asked_for else result

    async def _health(self, seconds: float) -> int | None:
        """The status of the server's health page; 0 for none; None where it has no such page."""
        path = server_of(self._runtime).health
        if path is None:
            return None
        try:
            return (await within(seconds, self._request(Ask(path)), self._lag))[0]
        except (TimeoutError, EnginewatchError, httpx.HTTPError, OSError, ValueError):
            return 0

    async def _request(self, ask: Ask) -> tuple[int, bytes]:
        context = self._tls.context() if self._base.scheme == "https" else False
        transport = self._transport or httpx.AsyncHTTPTransport(verify=context)
        async with httpx.AsyncClient(transport=transport, timeout=None, trust_env=False) as client:  # noqa: S113
            status, body = await exchange(client, self._base, ask, self._target, _MOST_BYTES)
        if len(body) > _MOST_BYTES:
            raise FetchError(f"the answer is over {_MOST_BYTES} bytes")
        return status, body

    def _may_change_dialect(self) -> bool:
        settings = self._settings
        return settings.chat is None and settings.path is None and self._runtime != "triton"

    def _told(self, result: Result, problem: str) -> tuple[Result, int]:
        self.problem = problem
        return result, 0
