"""Serves the pages of a recording over HTTP, as they were served then: a stand-in for engines."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from enginewatch.errors import EnginewatchError
from enginewatch.model import Labels, Millis
from enginewatch.recording import Event, ScrapeEvent


class Stage:
    """The recorded targets, each showing the page it had at the current place of the recording.

    `position` tells how far the recording has run, in ms since its first scrape.
    Raises EnginewatchError for a recording without a scrape.
    """

    def __init__(self, events: Iterable[Event], position: Callable[[], Millis]):
        self._position: Final = position
        self._scrapes: Final[dict[Labels, list[ScrapeEvent]]] = {}
        for event in events:
            if isinstance(event, ScrapeEvent):
                self._scrapes.setdefault(event.labels, []).append(event)
        if not self._scrapes:
            raise EnginewatchError("the recording holds no scrape", hint="nothing can be served")
        starts = [scrapes[0].at for scrapes in self._scrapes.values()]
        ends = [scrapes[-1].at for scrapes in self._scrapes.values()]
        self.first: Final = min(starts)
        self.length: Final = max(ends) - self.first
        """From the first scrape to the last, in ms."""

    def paths(self) -> Mapping[str, Labels]:
        """Where each target is served. The first is at /metrics, as on a real engine."""
        names = ["/metrics", *(f"/{n}/metrics" for n in range(1, len(self._scrapes)))]
        return dict(zip(names, self._scrapes, strict=True))

    def current(self, labels: Labels) -> ScrapeEvent:
        """The scrape of a target that is the newest at the current place."""
        scrapes = self._scrapes[labels]
        reached = bisect_right(scrapes, self.first + self._position(), key=lambda s: s.at)
        return scrapes[max(0, reached - 1)]

    def app(self) -> Starlette:
        return Starlette(
            routes=[self._route(path, labels) for path, labels in self.paths().items()]
        )

    def _route(self, path: str, labels: Labels) -> Route:
        async def page(_: Request) -> Response:
            event = self.current(labels)
            if event.body is None:
                text = f"the recorded scrape failed: {event.error}\n"
                return PlainTextResponse(text, status_code=503)
            kind = event.content_type or "text/plain; version=0.0.4; charset=utf-8"
            return Response(event.body, headers={"Content-Type": kind})

        return Route(path, page)
