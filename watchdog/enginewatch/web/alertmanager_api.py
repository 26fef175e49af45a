"""Alerts as in Alertmanager's API, version 2: what `amtool alert` and dashboards speak.

The API: github.com/prometheus/alertmanager, api/v2/openapi.yaml.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import yaml
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route as HttpRoute

from enginewatch import __version__
from enginewatch.model import Alert, AlertState, Labels, Matcher, Millis, compile_re2, matches_all
from enginewatch.notify.mute import Muting
from enginewatch.notify.route import Route
from enginewatch.notify.text import alert_page, started
from enginewatch.units import format_duration, format_time
from enginewatch.web.desk import Desk
from enginewatch.web.params import ParameterError
from enginewatch.web.silences_api import error, filters

LIFETIME: Final[Millis] = 240_000
"""How far off the `endsAt` of an alert that fires is: four times Prometheus' resend delay."""

NOBODY: Final = "none"
"""The receiver of what no receiver hears of: in Alertmanager's API every alert has one."""

FLAGS: Final = ("active", "silenced", "inhibited", "muted", "unprocessed")


class Shown(NamedTuple):
    """An alert that fires, and what becomes of it."""

    alert: Alert
    routes: tuple[Route, ...]
    muting: Muting


class Wanted(NamedTuple):
    """Which alerts a request asks for; everything unless it says otherwise."""

    matchers: tuple[Matcher, ...]
    receiver: Any
    flags: dict[str, bool]

    @classmethod
    def of(cls, request: Request) -> Wanted:
        """Raises ParameterError."""
        pattern = request.query_params.get("receiver", "")
        try:
            receiver = compile_re2(pattern) if pattern else None
        except ValueError as mistake:
            raise ParameterError(str(mistake), where="parameter receiver") from None
        return cls(filters(request), receiver, {name: _flag(request, name) for name in FLAGS})

    def accepts(self, shown: Shown) -> bool:
        if not matches_all(shown.alert.labels, self.matchers):
            return False
        if self.receiver and not any(
            self.receiver.fullmatch(name) for name in receivers_of(shown.routes) or [NOBODY]
        ):
            return False
        causes = {
            "silenced": shown.muting.silenced_by,
            "inhibited": shown.muting.inhibited_by,
            "muted": shown.muting.quiet_by,
        }
        present = [name for name, cause in causes.items() if cause] or ["active"]
        return all(self.flags[name] for name in present)


def _flag(request: Request, name: str) -> bool:
    text = request.query_params.get(name, "true")
    if text not in {"true", "false"}:
        raise ParameterError(f"{text!r} is neither true nor false", where=f"parameter {name}")
    return text == "true"


@dataclass(frozen=True)
class AlertmanagerApi:
    """The routes that read; `since` is when the daemon started."""

    desk: Desk
    clock: Callable[[], Millis]
    since: Millis

    def routes(self) -> list[HttpRoute]:
        return [
            HttpRoute("/api/v2/alerts", self.alerts),
            HttpRoute("/api/v2/alerts/groups", self.groups),
            HttpRoute("/api/v2/receivers", self.receivers),
            HttpRoute("/api/v2/status", self.status),
        ]

    def shown(self) -> Iterator[Shown]:
        now, tree = self.clock(), self.desk.tree()
        for alert in self.desk.alerts():
            if alert.state is AlertState.FIRING:
                yield Shown(alert, tree.match(alert.labels), self.desk.muting(alert, now))

    async def alerts(self, request: Request) -> Response:
        try:
            wanted = Wanted.of(request)
        except ParameterError as mistake:
            return error(400, str(mistake))
        found = sorted(filter(wanted.accepts, self.shown()), key=lambda s: s.alert.fingerprint)
        return JSONResponse([self._json(each) for each in found])

    async def groups(self, request: Request) -> Response:
        try:
            wanted = Wanted.of(request)
        except ParameterError as mistake:
            return error(400, str(mistake))
        found: dict[tuple[str, Labels, str], list[Shown]] = {}
        for shown in filter(wanted.accepts, self.shown()):
            for route in shown.routes:
                key = (route.key, route.group_labels(shown.alert.labels), route.receiver or NOBODY)
                if wanted.receiver is None or wanted.receiver.fullmatch(key[2]):
                    found.setdefault(key, []).append(shown)
        ordered = sorted(found.items(), key=lambda item: (item[0][1], item[0][2]))
        return JSONResponse(
            [
                {
                    "labels": dict(labels),
                    "receiver": {"name": receiver},
                    "alerts": [self._json(each) for each in members],
                }
                for (_, labels, receiver), members in ordered
            ]
        )

    async def receivers(self, _: Request) -> Response:
        return JSONResponse([{"name": name} for name in sorted(self.desk.receivers())])

    async def status(self, _: Request) -> Response:
        return JSONResponse(
            {
                "cluster": {"status": "disabled", "peers": []},
                "config": {"original": original(self.desk.tree(), self.desk.receivers())},
                "uptime": format_time(self.since),
                "versionInfo": {
                    "version": __version__,
                    **dict.fromkeys(("branch", "buildDate", "buildUser", "revision"), ""),
                    "goVersion": "",
                },
            }
        )

    def _json(self, shown: Shown) -> dict[str, Any]:
        now = self.clock()
        alert, muting = shown.alert, shown.muting
        silenced, quiet = list(muting.silenced_by), list(muting.quiet_by)
        inhibited = [Alert(labels, {}, 0.0, 0).fingerprint for labels in muting.inhibited_by]
        return {
            "labels": dict(alert.labels),
            "annotations": dict(alert.annotations),
            "startsAt": format_time(started(alert)),
            "endsAt": format_time(now + LIFETIME),
            "updatedAt": format_time(now),
            "generatorURL": alert_page(alert, self.desk.external_url()),
            "fingerprint": alert.fingerprint,
            "receivers": [{"name": name} for name in receivers_of(shown.routes) or [NOBODY]],
            "status": {
                "state": "suppressed" if silenced or inhibited or quiet else "active",
                "silencedBy": silenced,
                "inhibitedBy": inhibited,
                "mutedBy": quiet,
            },
        }


def receivers_of(routes: Sequence[Route]) -> list[str]:
    """The receivers that hear of an alert, each once."""
    return sorted({route.receiver for route in routes if route.receiver})


def original(tree: Route, receivers: Sequence[str]) -> str:
    """Routes and receivers as an `alertmanager.yml`, for `amtool config routes`: no secrets."""
    names = dict.fromkeys([NOBODY, *receivers])
    document = {
        "route": _route_yaml(tree, root=True),
        "receivers": [{"name": name} for name in names],
    }
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)


def _route_yaml(route: Route, *, root: bool = False) -> dict[str, Any]:
    said: dict[str, Any] = {
        "receiver": route.receiver or NOBODY,
        "group_by": ["..."] if route.group_by is None else list(route.group_by),
        "group_wait": format_duration(route.timing.group_wait),
        "group_interval": format_duration(route.timing.group_interval),
        "repeat_interval": format_duration(route.timing.repeat_interval),
    }
    if not root:
        said["matchers"] = [str(matcher) for matcher in route.matchers]
        said["continue"] = route.goes_on
    if route.routes:
        said["routes"] = [_route_yaml(child) for child in route.routes]
    return said
