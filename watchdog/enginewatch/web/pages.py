"""Pages for people: server-rendered, no JavaScript, and whatever came from outside stays text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from enginewatch import __version__
from enginewatch.alerting.coverage import Blind
from enginewatch.model import Alert, AlertState, Millis
from enginewatch.notify.route import for_machines
from enginewatch.units import format_duration

HEADERS: Final = {
    # Nothing on these pages runs, loads or frames anything: what is injected can't either.
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def environment() -> Environment:
    """Templates with everything escaped, where a name that does not exist is an error."""
    made = Environment(
        loader=PackageLoader("enginewatch.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["ago"] = ago
    made.filters["until"] = until
    return made


def ago(at: Millis, now: Millis) -> str:
    """How long before `now`, to the second: `3m20s`."""
    return format_duration(max(0, now - at) // 1000 * 1000)


def until(at: Millis, now: Millis) -> str:
    """How long after `now`, to the second."""
    return ago(now, at)


@dataclass(frozen=True)
class Pages:
    """The routes; each argument gives the current state when asked."""

    alerts: Callable[[], Iterable[Alert]]
    targets: Callable[[], Iterable[Mapping[str, Any]]]
    blind: Callable[[], Iterable[Blind]]
    ailment: Callable[[], str | None]
    clock: Callable[[], Millis]
    templates: Environment

    def routes(self) -> list[Route]:
        return [Route("/", self.status)]

    async def status(self, _: Request) -> Response:
        active = [
            alert
            for alert in self.alerts()
            if alert.state is not AlertState.RESOLVED and not for_machines(alert.labels)
        ]
        active.sort(key=lambda a: (a.state is not AlertState.FIRING, a.active_at))
        text = self.templates.get_template("status.html").render(
            alerts=active,
            targets=list(self.targets()),
            blind=list(self.blind()),
            ailment=self.ailment(),
            now=self.clock(),
            version=f"enginewatch {__version__}",
        )
        return HTMLResponse(text, headers=HEADERS)
