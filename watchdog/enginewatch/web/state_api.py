"""The rest of Prometheus' API: rules, alerts, targets, build information."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from enginewatch import __version__
from enginewatch.alerting.events import GroupStatus, RuleStatus
from enginewatch.alerting.rules import AlertingRule
from enginewatch.model import Alert, AlertState, Millis
from enginewatch.promql.printer import format_expr
from enginewatch.units import format_time
from enginewatch.web.answer import answered
from enginewatch.web.encode import success
from enginewatch.web.params import ParameterError, Params

NEVER = "0001-01-01T00:00:00Z"
"""Go's zero time, which Prometheus gives for what has not happened yet."""


class StateApi:
    """The routes; each argument gives the current state when asked."""

    def __init__(
        self,
        groups: Callable[[], Iterable[GroupStatus]],
        alerts: Callable[[], Iterable[Alert]],
        targets: Callable[[], Iterable[Mapping[str, Any]]],
    ):
        self._groups = groups
        self._alerts = alerts
        self._targets = targets

    def routes(self) -> list[Route]:
        return [
            Route("/api/v1/rules", answered(self.rules)),
            Route("/api/v1/alerts", self.alerts),
            Route("/api/v1/targets", self.targets),
            Route("/api/v1/status/buildinfo", self.buildinfo),
        ]

    async def rules(self, request: Request) -> JSONResponse:
        params = await Params.of(request)
        kind = params.text("type")
        if kind not in (None, "alert", "record"):
            raise ParameterError(
                f"{kind!r} is no kind of rule", where="parameter type", hint="alert or record"
            )
        names, groups, files = (params.all(f"{n}[]") for n in ("rule_name", "rule_group", "file"))
        shown = []
        for status in self._groups():
            group = status.group
            if (groups and group.name not in groups) or (files and group.file not in files):
                continue
            rules = [
                rule_json(rule)
                for rule in status.rules
                if kind in (None, "alert" if isinstance(rule.rule, AlertingRule) else "record")
                and (not names or rule.rule.name in names)
            ]
            if rules or not (kind or names):
                shown.append(group_json(status, rules))
        return success({"groups": shown})

    async def alerts(self, _: Request) -> JSONResponse:
        active = (a for a in self._alerts() if a.state is not AlertState.RESOLVED)
        return success({"alerts": [alert_json(alert) for alert in active]})

    async def targets(self, request: Request) -> JSONResponse:
        state = (await Params.of(request)).text("state")
        active = list(self._targets()) if state in (None, "any", "active") else []
        return success({"activeTargets": active, "droppedTargets": []})

    async def buildinfo(self, _: Request) -> JSONResponse:
        return success(
            {
                "application": "enginewatch",
                "version": __version__,
                "revision": "",
                "branch": "",
                "buildUser": "",
                "buildDate": "",
                "goVersion": f"Python {sys.version.split()[0]}",
            }
        )


def group_json(status: GroupStatus, rules: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": status.group.name,
        "file": status.group.file,
        "interval": status.interval / 1000,
        "limit": status.group.limit,
        "rules": rules,
        "evaluationTime": status.seconds,
        "lastEvaluation": _time(status.evaluated_at),
    }


def rule_json(status: RuleStatus) -> dict[str, Any]:
    """A rule as `/api/v1/rules` shows it; alerting rules with their active alerts."""
    rule = status.rule
    common = {
        "name": rule.name,
        "query": format_expr(rule.expr),
        "health": status.health.value,
        "lastError": status.last_error,
        "evaluationTime": status.seconds,
        "lastEvaluation": _time(status.evaluated_at),
    }
    if not isinstance(rule, AlertingRule):
        return {**common, "labels": dict(rule.labels), "type": "recording"}
    states = {alert.state for alert in status.alerts}
    worst = next((s for s in (AlertState.FIRING, AlertState.PENDING) if s in states), None)
    return {
        **common,
        "state": worst.value if worst else "inactive",
        "duration": rule.for_ / 1000,
        "keepFiringFor": rule.keep_firing_for / 1000,
        "labels": {name: template.text for name, template in rule.labels.items()},
        "annotations": {name: template.text for name, template in rule.annotations.items()},
        "alerts": [alert_json(alert) for alert in status.alerts],
        "type": "alerting",
    }


def alert_json(alert: Alert) -> dict[str, Any]:
    """An active alert. `unknown` is ours: its inputs vanished while it was active."""
    return {
        "labels": dict(alert.labels),
        "annotations": dict(alert.annotations),
        "state": alert.state.value,
        "activeAt": format_time(alert.active_at),
        "value": format(alert.value, "e"),
        **({"unknown": True} if alert.unknown else {}),
    }


def _time(at: Millis | None) -> str:
    return NEVER if at is None else format_time(at)
