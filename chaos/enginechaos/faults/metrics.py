"""What stands between an engine's metrics page and who reads it: renames, removals, silence.

`MetricsProxy` is put in the scrape path before the watchdog is configured, and passes pages on as
they are. Faults change what it does with them; the engine itself is not touched.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Self

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from enginechaos.actions import Action, EndsWithRun
from enginechaos.faults.base import Evidence, Fault
from enginechaos.receivers.server import Server
from enginechaos.target import Target

Change = Callable[[str], str]
"""Of a page's text."""

_HANGS_FOR: Final = 600.0
"""Seconds until a page that hangs is answered after all: longer than any fault."""
_PATIENCE: Final = 3.0
"""Seconds that a reader of our own waits for a page."""


class MetricsProxy:
    """Serves the metrics page of `engine` at `url`, inside a `with` block.

    `target` is the engine as the watchdog is to be told of it.
    """

    def __init__(self, engine: Target):
        self._engine: Final = engine
        self._path: Final = httpx.URL(engine.metrics_url).path
        self._server: Final = Server(Starlette(routes=[Route(self._path, self._page)]))
        self.change: Change | None = None
        self.hangs = False

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()
        self._server.stop()

    @property
    def url(self) -> str:
        return f"{self._server.url}{self._path}"

    @property
    def target(self) -> Target:
        return replace(self._engine, metrics_url=self.url)

    def clear(self) -> None:
        """Pass pages on as they are; pages that hang are answered."""
        self.change, self.hangs = None, False

    async def _page(self, request: Request) -> Response:
        waited = 0.0
        while self.hangs and waited < _HANGS_FOR and not await request.is_disconnected():
            await asyncio.sleep(0.1)
            waited += 0.1
        accept = {"Accept": request.headers.get("accept", "*/*")}
        try:
            async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
                answer = await client.get(self._engine.metrics_url, headers=accept)
        except httpx.HTTPError as failure:
            return Response(f"the engine does not answer: {failure}", 502)
        kind = {"Content-Type": answer.headers.get("content-type", "text/plain")}
        text = answer.text if self.change is None else self.change(answer.text)
        return Response(text, answer.status_code, kind)


def renamed(page: str, names: Mapping[str, str]) -> str:
    """A page with families under other names, `_bucket`, `_sum`, `_count` and `_total` kept."""
    return _of(names).sub(lambda found: found[1] + names[found[2]], page)


def removed(page: str, names: Sequence[str]) -> str:
    """A page without those families, their comments included."""
    found = _of(names)
    return "".join(line for line in page.splitlines(keepends=True) if not found.match(line))


def _of(names: Sequence[str] | Mapping[str, str]) -> re.Pattern[str]:
    either = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    suffix = r"(?:_bucket|_sum|_count|_total|_created)?"
    comment = r"(?:# (?:HELP|TYPE|UNIT) )?"
    return re.compile(rf"^({comment})({either})(?={suffix}(?:[ {{]|$))", re.MULTILINE)


@dataclass
class _PageFault(Fault):
    """Of what the watchdog reads; the evidence is the page that a reader of our own gets."""

    proxy: MetricsProxy

    def blast_radius(self, target: Target) -> str:
        return f"what is read of {target.deployment} through the suite's own proxy; no request"

    def undo(self, target: Target) -> Sequence[Action]:
        return [EndsWithRun("what the suite's own proxy does to the metrics page")]

    def retract(self, target: Target) -> None:
        self.proxy.clear()

    def _read(self) -> str | None:
        """The page; None when there is none in time."""
        try:
            return httpx.get(self.proxy.url, timeout=_PATIENCE, trust_env=False).text
        except httpx.TimeoutException:
            return None


@dataclass
class RenamedMetrics(_PageFault):
    """An upgrade that calls families otherwise: `{"vllm:kv_cache_usage_perc": "vllm:kv_usage"}`."""

    names: Mapping[str, str] = field(default_factory=dict)

    def inject(self, target: Target) -> None:
        self.proxy.change = lambda page: renamed(page, self.names)

    def verify(self, target: Target) -> Evidence:
        page = self._read() or ""
        old = [name for name in self.names if _of([name]).search(page)]
        new = [name for name in self.names.values() if _of([name]).search(page)]
        wrong = f"still has {', '.join(old)}" if old else f"has {', '.join(new) or 'neither'}"
        return Evidence(not old and len(new) == len(self.names), f"the page {wrong}")


@dataclass
class RemovedMetrics(_PageFault):
    """A release, or a flag, that no longer exports families."""

    names: Sequence[str] = ()

    def inject(self, target: Target) -> None:
        self.proxy.change = lambda page: removed(page, self.names)

    def verify(self, target: Target) -> Evidence:
        page = self._read()
        left = [name for name in self.names if _of([name]).search(page or "")]
        said = f"still has {', '.join(left)}" if left else f"lacks {', '.join(self.names)}"
        return Evidence(bool(page) and not left, f"the page {said}")


@dataclass
class EmptyPage(_PageFault):
    """A page of nothing, served with 200: a proxy in front of the engine answers in its place."""

    def inject(self, target: Target) -> None:
        self.proxy.change = lambda _: ""

    def verify(self, target: Target) -> Evidence:
        page = self._read()
        said = "no page" if page is None else f"a page of {len(page)} bytes"
        return Evidence(page == "", f"a reader of our own got {said}")


@dataclass
class HungScrape(_PageFault):
    """The page is asked for and never comes, while the engine serves requests."""

    def inject(self, target: Target) -> None:
        self.proxy.hangs = True

    def verify(self, target: Target) -> Evidence:
        hangs = self._read() is None
        said = f"has no page after {_PATIENCE:g} s" if hangs else "is given the page"
        return Evidence(hangs, f"a reader of our own {said}")
