"""What the daemon as a user runs it does with alerts: routes, heartbeat, a lost disk, SIGKILL."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from tests.daemon.conftest import FIRED, RESOLVED, Write
from tests.support.daemon import Engine, Hook, eventually, running
from tests.support.server import serve

from enginewatch.rulepack import rules_path

pytestmark = pytest.mark.integration


class Switch:
    """A dead man's switch: counts how often it was called."""

    def __init__(self) -> None:
        self.calls = 0

    def app(self) -> Starlette:
        async def call(_: Request) -> Response:
            self.calls += 1
            return PlainTextResponse("ok")

        return Starlette(routes=[Route("/ping", call)])


@pytest.fixture
def switch() -> Switch:
    return Switch()


@pytest.fixture
def switch_url(switch: Switch) -> Iterator[str]:
    with serve(switch.app()) as url:
        yield f"{url}/ping"


def test_a_killed_daemon_neither_loses_nor_invents_an_incident(
    config: Path, engine: Engine, hook: Hook
) -> None:
    engine.page = "temperature 42\n"
    with running(config) as daemon:
        eventually(lambda: hook.told() == [FIRED], "the page")
        eventually(
            lambda: daemon.value("enginewatch_notifications_delivered_total") == 1, "its receipt"
        )
        daemon.kill()
    engine.page = "temperature 7\n"
    with running(config) as daemon:
        eventually(lambda: hook.told() == [FIRED, RESOLVED], "the resolve")
        assert daemon.stop() == 0


def test_a_page_that_nobody_took_before_the_kill_is_told_after_it(
    config: Path, engine: Engine, hook: Hook
) -> None:
    hook.refuse = 10**6
    engine.page = "temperature 42\n"
    with running(config) as daemon:
        eventually(
            lambda: daemon.value(
                'enginewatch_notification_attempts_failed_total{reason="server_error"}'
            ),
            "an attempt",
        )
        daemon.kill()
    hook.refuse = 0
    with running(config) as daemon:
        eventually(lambda: hook.told() == [FIRED], "the page")
        assert daemon.stop() == 0


def test_a_disk_that_is_lost_stops_no_page(
    config: Path, engine: Engine, hook: Hook, tmp_path: Path
) -> None:
    with running(config) as daemon:
        eventually(lambda: daemon.value("temperature") == 5, "the first scrape")
        state = tmp_path / "state"
        shutil.rmtree(state)
        state.write_text("no folder")  # nothing can be made in its place
        engine.page = "temperature 42\n"
        eventually(lambda: hook.told() == [FIRED], "the page")
        eventually(lambda: daemon.value("enginewatch_state_writable") == 0, "its own verdict")
        assert "would not survive a restart" in daemon.log
        state.unlink()
        eventually(lambda: daemon.value("enginewatch_state_writable") == 1, "the disk's return")
        daemon.kill()
    engine.page = "temperature 7\n"
    with running(config):
        eventually(lambda: hook.told() == [FIRED, RESOLVED], "the resolve")


def test_a_state_that_cannot_be_read_stops_no_page_and_is_told_of(
    config: Path, engine: Engine, hook: Hook, tmp_path: Path
) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "state.db").write_bytes(b"no database at all" * 500)
    engine.page = "temperature 42\n"
    with running(config) as daemon:
        eventually(lambda: hook.told() == [FIRED], "the page")
        assert (daemon.value("enginewatch_state_lost_timestamp_seconds") or 0) > 0
        assert daemon.value("enginewatch_state_writable") == 1
        assert "state.db.broken-1" in daemon.log


def test_the_heartbeat_is_heard_and_watchdog_goes_only_where_it_is_routed(
    settings: dict[str, Any], write: Write, hook: Hook, switch: Switch, switch_url: str
) -> None:
    rule = {"alert": "Watchdog", "expr": "vector(1)", "labels": {"severity": "none"}}
    path = write(settings)
    rules = path.with_name("rules.yml")
    rules.write_text(f"groups: [{{name: always, rules: [{rule!r}]}}]")
    settings["heartbeat"] = {"url": switch_url, "interval": "200ms"}
    with running(write(settings)) as daemon:
        eventually(lambda: switch.calls >= 3, "heartbeats")
        eventually(
            lambda: daemon.value("ALERTS{alertname='Watchdog', alertstate='firing'}"), "Watchdog"
        )
        assert daemon.value("enginewatch_heartbeat_last_success_timestamp_seconds") is not None
        assert hook.told() == []
        settings["route"]["routes"] = [{"matchers": ["alertname=Watchdog"]}]
        write(settings)
        assert daemon.post("/-/reload")[0] == 200
        eventually(lambda: ("firing", "Watchdog") in hook.told(), "Watchdog, once routed")
        assert "/ping" not in daemon.log
        assert daemon.stop() == 0


def test_a_page_that_is_refused_is_an_alert_on_the_watchdog_itself(
    settings: dict[str, Any], write: Write, engine: Engine, hook: Hook
) -> None:
    own = rules_path() / "hazards" / "watchdog_self.yml"
    settings["rule_files"].append(str(own))
    hook.refuse, hook.status = 1, 403
    engine.page = "temperature 42\n"
    with running(write(settings)) as daemon:
        eventually(lambda: "answered 403" in daemon.log, "the refusal")
        about = eventually(lambda: hook.told(), "what is told next")
        assert about == [("firing", "WatchdogDeliveryRefused")]
        assert hook.received[0]["alerts"][0]["labels"]["reason"] == "rejected"
        assert daemon.value("ALERTS{alertname='Watchdog', alertstate='firing'}") == 1


def test_quiet_hours_and_inhibition_of_the_configuration_hold(
    settings: dict[str, Any], write: Write, engine: Engine, hook: Hook
) -> None:
    always = {"name": "always", "time_intervals": [{}]}
    settings["time_intervals"] = [always]
    settings["route"]["routes"] = [
        {"matchers": ["verdict=gpu_fault"], "mute_time_intervals": ["always"]}
    ]
    engine.page = "temperature 42\n"
    with running(write(settings)) as daemon:
        eventually(lambda: daemon.value("ALERTS{alertstate='firing'}"), "the alert")
        assert daemon.stop() == 0
    assert hook.told() == []
    del settings["route"]["routes"]
    with running(write(settings)):
        eventually(lambda: hook.told() == [FIRED], "the page, once nothing mutes it")
