"""Alertmanager as a receiver: what is posted, and what Debian's real one makes of it."""

from __future__ import annotations

import asyncio
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.notify.alerts import BESIDE, FIRED, URL, notification, resolved
from tests.support.daemon import Hook, eventually
from tests.support.real_alertmanager import AMTOOL, BINARY, alertmanager, get
from tests.support.server import serve

from enginewatch.model import Alert
from enginewatch.notify.alertmanager import Alertmanager, alerts
from enginewatch.notify.message import DeliveryError, Notification, Receipt
from enginewatch.units import parse_time

HOUR = 3_600_000


def send(url: str, told: Notification, lifetime: int = HOUR) -> Receipt:
    async def deliver() -> Receipt:
        async with httpx.AsyncClient(timeout=10) as client:
            receiver = Alertmanager("am/alertmanager[0]", url, lifetime, client)
            return await receiver.send(told)

    return asyncio.run(deliver())


def test_an_alert_that_fires_ends_in_the_future() -> None:
    told = notification(FIRED, at=FIRED.active_at + 10 * HOUR)
    (posted,) = alerts(told, HOUR)
    assert posted == {
        "labels": dict(FIRED.labels),
        "annotations": dict(FIRED.annotations),
        "startsAt": "2025-11-30T19:45:46.000Z",
        "endsAt": "2025-12-01T06:45:40.000Z",
        "generatorURL": f"{URL}/alerts/{FIRED.fingerprint}",
    }


def test_a_resolved_one_ends_when_it_did() -> None:
    _, posted = alerts(notification(BESIDE, resolved()), HOUR)
    assert posted["endsAt"] == "2025-11-30T19:47:21.000Z"


@pytest.mark.parametrize("step", [-HOUR, 0])
def test_no_end_comes_before_its_start_when_the_clock_steps_back(step: int) -> None:
    back = replace(FIRED, resolved_at=FIRED.active_at + step)
    for posted in alerts(notification(FIRED, back, at=FIRED.active_at + step), HOUR):
        assert parse_time(posted["endsAt"]) >= parse_time(posted["startsAt"])


def now_firing() -> Alert:
    now = time.time_ns() // 1_000_000
    return replace(FIRED, active_at=now - 10_000, fired_at=now - 5_000)


@pytest.mark.integration
@pytest.mark.skipif(BINARY is None, reason="needs prometheus-alertmanager")
def test_the_real_one_is_told_of_the_fire_and_of_its_end(tmp_path: Path) -> None:
    hook = Hook()
    with serve(hook.app()) as told, alertmanager(tmp_path, f"{told}/hook") as url:
        firing = now_firing()
        send(f"{url}/", notification(firing, at=firing.fired_at))
        eventually(lambda: hook.received, "the page")
        assert hook.told() == [("firing", "EngineStuck")]
        (held,) = get(f"{url}/api/v2/alerts")
        assert held["fingerprint"] == firing.fingerprint
        assert held["generatorURL"] == f"{URL}/alerts/{firing.fingerprint}"

        send(url, notification(resolved(firing, 5_000)))
        eventually(lambda: len(hook.told()) > 1, "the resolve")
        assert hook.told()[-1] == ("resolved", "EngineStuck")
        assert get(f"{url}/api/v2/alerts") == []

        bad: Any = replace(firing, labels=type(firing.labels)({"not a name": "x"}))
        with pytest.raises(DeliveryError, match="400") as caught:
            send(url, notification(bad))
        assert not caught.value.retryable


@pytest.mark.integration
@pytest.mark.skipif(BINARY is None or AMTOOL is None, reason="needs prometheus-alertmanager")
def test_a_silence_over_there_is_kept_over_there(tmp_path: Path) -> None:
    assert AMTOOL is not None
    hook = Hook()
    with serve(hook.app()) as told, alertmanager(tmp_path, f"{told}/hook") as url:
        add = ["silence", "add", "-a", "ana", "-c", "x", "instance=gpu-1:8000"]
        subprocess.run(
            [AMTOOL, f"--alertmanager.url={url}", *add], check=True, capture_output=True, timeout=30
        )
        silenced = now_firing()
        other = replace(silenced, labels=BESIDE.labels)
        send(url, notification(silenced, other, at=silenced.fired_at))
        eventually(lambda: hook.received, "the page of the other")
        (body,) = hook.received
        assert [alert["labels"]["instance"] for alert in body["alerts"]] == ["gpu-2:8000"]
