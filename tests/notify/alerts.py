"""Alerts and notifications that the receivers' tests tell of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from enginewatch.model import Alert, Labels, freeze
from enginewatch.notify.message import Notification, Reason

URL = "http://watch:9469"

FIRED = Alert(
    Labels(
        alertname="EngineStuck",
        verdict="stuck_engine",
        severity="page",
        deployment="chat",
        instance="gpu-1:8000",
        job="chat",
        model="llama",
        runtime="vllm",
    ),
    freeze(
        {
            "summary": "chat: gpu-1:8000 holds 4 requests and generates nothing",
            "description": "Their clients hang. Next: take stacks of the workers and restart.",
            "impact": "Every request to chat hangs.",
            "threshold": "> 0",
            "runbook_url": "https://runbooks.example/stuck_engine.md",
            "evidence": "step 41 took 300 s\n\nworker 1 did not answer",
        }
    ),
    value=4.0,
    active_at=1_764_531_940_000,
    fired_at=1_764_531_946_000,
)

BESIDE = replace(FIRED, labels=FIRED.labels.with_(instance="gpu-2:8000"))


def resolved(alert: Alert = FIRED, after: int = 95_000) -> Alert:
    return replace(alert, resolved_at=(alert.fired_at or 0) + after)


def saying(**annotations: str) -> Alert:
    """`FIRED` with other annotations."""
    return replace(FIRED, annotations=freeze({**FIRED.annotations, **annotations}))


def notification(*alerts: Alert, **more: Any) -> Notification:
    given = {"reason": Reason.FIRST, "at": 1_764_531_947_000, "id": "n1", **more}
    labels = Labels(deployment="chat", verdict="stuck_engine")
    return Notification("on-call", f"{{}}:{labels!r}", labels, alerts or (FIRED,), URL, **given)
