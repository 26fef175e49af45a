"""The page that a browser opens first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from starlette.requests import Request
from tests.notify.alerts import FIRED

from enginewatch.model import Alert
from enginewatch.web.pages import Pages, environment

HOSTILE = replace(FIRED, annotations={"summary": "<script>alert(1)</script>"})
WATCHDOG = replace(FIRED, labels=FIRED.labels.with_(alertname="Watchdog", severity="none"))


def shown(alerts: Sequence[Alert], ailment: str | None = None) -> str:
    pages = Pages(lambda: alerts, list, list, lambda: ailment, lambda: 0, environment())
    answer = asyncio.run(pages.status(Request({"type": "http"})))
    return bytes(answer.body).decode()


def test_it_lists_what_fires_and_what_came_from_outside_stays_text() -> None:
    page = shown([HOSTILE])
    assert f"/alerts/{HOSTILE.fingerprint}" in page
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_what_always_fires_is_no_alert_to_people() -> None:
    page = shown([WATCHDOG])
    assert "Watchdog" not in page
    assert "None is pending or firing." in page


def test_an_unhealthy_daemon_says_so_first() -> None:
    assert "Not healthy: nothing leaves for hook" in shown([], "nothing leaves for hook")
