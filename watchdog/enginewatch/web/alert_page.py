"""The page behind every notification's link: one alert, who has been told, and a silence for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, Protocol

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from enginewatch import __version__
from enginewatch.errors import EnginewatchError
from enginewatch.model import Alert, AlertState, Labels, Matcher, MatchOp, Millis
from enginewatch.notify import text
from enginewatch.notify.silence import Silence, SilenceError
from enginewatch.units import parse_duration
from enginewatch.web.alertmanager_api import receivers_of
from enginewatch.web.desk import Desk
from enginewatch.web.pages import HEADERS
from enginewatch.web.params import ParameterError, Params

PAGE_HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **HEADERS,
        "Content-Security-Policy": HEADERS["Content-Security-Policy"] + "; form-action 'self'",
        # Under `no-referrer` a browser posts a form with `Origin: null`, as another site would.
        "Referrer-Policy": "same-origin",
        "Cache-Control": "no-store",
    }
)

SPANS: Final = ("30m", "1h", "2h", "8h", "1d")

MOST_SHOWN: Final = 50
"""Notifications in the history."""

SCOPES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "hazard": ("deployment", "verdict"),
        "alert": (),
        "deployment": ("deployment",),
    }
)
"""The labels that a silence of each scope asks for; all of the alert's where none are named."""


class Refusal(Protocol):
    def __call__(self, request: Request, given: str | None = None, /) -> Response | None: ...


@dataclass(frozen=True)
class AlertPages:
    """The routes. `needs_token` tells whether `refusal` asks for one."""

    desk: Desk
    clock: Callable[[], Millis]
    refusal: Refusal
    needs_token: Callable[[], bool]
    templates: Environment

    def routes(self) -> list[Route]:
        return [
            Route("/alerts/{fingerprint}", self.show),
            Route("/alerts/{fingerprint}/silence", self.silence, methods=["POST"]),
        ]

    async def show(self, request: Request) -> Response:
        alert = self._find(request)
        return self._missing(request) if alert is None else self._page(alert)

    async def silence(self, request: Request) -> Response:
        alert = self._find(request)
        if alert is None:
            return self._missing(request)
        try:
            form = await Params.of(request)
            if (refused := self.refusal(request, form.text("token"))) is not None:
                said = "That needs the API token." if self.needs_token() else "Refused."
                return self._page(alert, said, form, refused.status_code)
            self.desk.silences.put(silence_of(alert.labels, form, self.clock()), self.clock())
        except (ParameterError, SilenceError) as mistake:
            return self._page(alert, f"Not silenced: {mistake}", status=400)
        try:
            await self.desk.keep()
        except EnginewatchError as failure:
            said = f"Silenced, but that is lost at a restart, as it can't be saved: {failure}"
            return self._page(alert, said, status=500)
        return RedirectResponse(f"/alerts/{alert.fingerprint}", 303, PAGE_HEADERS)

    def _find(self, request: Request) -> Alert | None:
        """The alert of the path; the one that is not over where there are two."""
        wanted = request.path_params["fingerprint"]
        found = [alert for alert in self.desk.alerts() if alert.fingerprint == wanted]
        return min(found, key=lambda alert: alert.state is AlertState.RESOLVED, default=None)

    def _page(
        self, alert: Alert, mistake: str = "", form: Params | None = None, status: int = 200
    ) -> Response:
        now = self.clock()
        muting = self.desk.muting(alert, now)
        return self._render(
            "alert.html",
            status,
            alert=alert,
            told=text.told(alert, ""),
            severity=text.severity_of(alert),
            now=now,
            silences=[self.desk.silences.get(id_) for id_ in muting.silenced_by],
            inhibited=[self._title(labels) for labels in muting.inhibited_by],
            quiet=muting.quiet_by,
            receivers=receivers_of(self.desk.tree().match(alert.labels)),
            deliveries=list(self.desk.deliveries(alert)),
            history=list(islice(self.desk.history(alert), MOST_SHOWN)),
            scopes={name: matchers(alert.labels, name) for name in SCOPES},
            spans=SPANS,
            needs_token=self.needs_token(),
            mistake=mistake,
            given={name: (form.text(name) if form else None) or "" for name in ("by", "comment")},
        )

    def _missing(self, request: Request) -> Response:
        return self._render("no_alert.html", 404, fingerprint=request.path_params["fingerprint"])

    def _render(self, name: str, status: int, **values: Any) -> Response:
        page = self.templates.get_template(name).render(
            version=f"enginewatch {__version__}", **values
        )
        return HTMLResponse(page, status, PAGE_HEADERS)

    def _title(self, labels: Labels) -> tuple[str, str]:
        """The path and the name of another alert."""
        other = Alert(labels, {}, 0.0, 0)
        return f"/alerts/{other.fingerprint}", f"{other.name} {labels.get('instance', '')}"


def matchers(labels: Labels, scope: str) -> tuple[Matcher, ...]:
    """What a silence of this scope asks of alerts."""
    wanted = SCOPES[scope] or tuple(labels)
    return tuple(Matcher(name, MatchOp.EQUAL, labels[name]) for name in wanted if name in labels)


def silence_of(labels: Labels, form: Params, now: Millis) -> Silence:
    """The silence that a form asks for. Raises ParameterError."""
    scope, span = form.required("scope"), form.required("span")
    if scope not in SCOPES:
        raise ParameterError(f"{scope!r} is no scope", hint=", ".join(SCOPES))
    try:
        lasts = parse_duration(span)
    except ValueError as mistake:
        raise ParameterError(str(mistake), where="span") from None
    return Silence(
        matchers(labels, scope),
        now,
        now + lasts,
        form.text("by") or "",
        form.text("comment") or "",
    )
