"""The daemon as a user runs it: an alert fires and resolves, a restart forgets nothing."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.daemon.conftest import FIRED, RESOLVED, Write
from tests.support.daemon import Engine, Hook, eventually, running

from enginewatch.collect.plugins import PLUGINS

pytestmark = pytest.mark.integration


def test_an_alert_fires_once_and_resolves_once(config: Path, engine: Engine, hook: Hook) -> None:
    with running(config) as daemon:
        eventually(lambda: daemon.value("temperature") == 5, "the first scrape")
        engine.page = "temperature 42\n"
        eventually(lambda: hook.told() == [FIRED], "the page")
        told = hook.received[0]
        assert told["receiver"] == "hook/webhook[0]"
        assert told["externalURL"] == daemon.url
        assert told["alerts"][0]["generatorURL"].startswith(f"{daemon.url}/alerts/")
        assert told["groupLabels"] == {"deployment": "chat-prod", "verdict": "gpu_fault"}
        assert told["alerts"][0]["annotations"]["summary"].endswith(" is at 42")
        engine.page = "temperature 7\n"
        eventually(lambda: hook.told() == [FIRED, RESOLVED], "the resolve")
        assert daemon.stop() == 0
    assert hook.told() == [FIRED, RESOLVED]


def test_a_restart_neither_repeats_a_page_nor_loses_its_resolve(
    config: Path, engine: Engine, hook: Hook
) -> None:
    engine.page = "temperature 42\n"
    with running(config) as daemon:
        eventually(lambda: hook.told() == [FIRED], "the page")
        assert daemon.stop() == 0
    with running(config) as daemon:
        eventually(lambda: daemon.value("ALERTS{alertstate='firing'}"), "the alert, still firing")
        assert hook.told() == [FIRED]
        assert daemon.stop() == 0
    engine.page = "temperature 7\n"
    with running(config) as daemon:
        eventually(lambda: hook.told() == [FIRED, RESOLVED], "the resolve")
        assert daemon.stop() == 0


def test_an_engine_that_vanishes_while_its_alert_fires_does_not_resolve_it(
    config: Path, engine: Engine, hook: Hook
) -> None:
    engine.page = "temperature 42\n"
    with running(config) as daemon:
        eventually(lambda: hook.told() == [FIRED], "the page")
        engine.status = 500
        eventually(lambda: daemon.value("up") == 0, "the engine to be down")
        alerts = eventually(
            lambda: [a for a in daemon.get("/api/v1/alerts")["data"]["alerts"] if a.get("unknown")],
            "the alert to be marked unknown",
        )
        assert alerts[0]["state"] == "firing"
        engine.status, engine.page = 200, "temperature 7\n"
        eventually(lambda: hook.told() == [FIRED, RESOLVED], "the resolve, once it is known")


def test_a_receiver_that_is_down_gets_the_page_later(
    config: Path, engine: Engine, hook: Hook
) -> None:
    hook.refuse = 2
    engine.page = "temperature 42\n"
    with running(config) as daemon:
        eventually(lambda: hook.told() == [FIRED], "the page, at the third attempt")
        assert "hook/webhook[0]" in daemon.log
        assert "/hook" not in daemon.log.replace("hook/webhook[0]", "")


def test_health_readiness_and_its_own_metrics(config: Path) -> None:
    with running(config) as daemon:
        eventually(lambda: daemon.value("up{job='enginewatch'}") is None, "an answer")
        eventually(lambda: daemon.value('enginewatch_targets{health="up"}') == 1, "own metrics")
        page = httpx.get(f"{daemon.url}/metrics").text
        for plugin in PLUGINS:
            assert f'enginewatch_collector_failures_total{{collector="{plugin.name}"}} 0.0' in page
        assert daemon.value("enginewatch_config_last_reload_successful") == 1


def reloads(daemon: Any) -> tuple[int, str]:
    return daemon.post("/-/reload")


def test_a_bad_configuration_leaves_the_running_one_in_force(
    config: Path,
    settings: dict[str, Any],
    write: Write,
    engine: Engine,
    hook: Hook,
) -> None:
    with running(config) as daemon:
        config.write_text("scrape_configs: [{job_name: chat, static_config: []}]\n")
        status, said = reloads(daemon)
        assert status == 422
        assert "static_config" in said
        assert "static_configs" in said
        daemon.process.send_signal(signal.SIGHUP)
        eventually(lambda: "not reloaded" in daemon.log, "the log to say why")
        engine.page = "temperature 42\n"
        eventually(lambda: hook.told() == [FIRED], "a page by the old configuration")

        settings["scrape_configs"][0]["deployment"] = "chat-canary"
        write(settings)
        assert reloads(daemon)[0] == 200
        eventually(lambda: daemon.value('temperature{deployment="chat-canary"}'), "the new one")


def test_a_daemon_that_can_tell_nobody_says_so_at_its_start_and_after_a_reload(
    settings: dict[str, Any], write: Write
) -> None:
    told = {key: settings.pop(key) for key in ("receivers", "route")}
    with running(write(settings)) as daemon:
        eventually(lambda: "no receivers: nobody is told" in daemon.log, "the log to say so")
        write(settings | told)
        assert reloads(daemon)[0] == 200
        assert f"links in notifications lead to {daemon.url}, which" in daemon.log
        assert daemon.log.count("nobody is told") == 1
        write(settings)
        assert reloads(daemon)[0] == 200
        assert daemon.log.count("nobody is told") == 2


@pytest.mark.parametrize("place", ["web", "storage"])
def test_what_needs_a_restart_is_refused_by_a_reload(
    config: Path, settings: dict[str, Any], write: Write, place: str
) -> None:
    with running(config) as daemon:
        settings[place] = {"web": {"listen": "127.0.0.1:1"}, "storage": {"path": "other"}}[place]
        write(settings)
        status, said = reloads(daemon)
        assert status == 422
        assert "restart" in said


def test_a_reload_by_another_site_or_without_the_token_is_refused(
    settings: dict[str, Any], write: Write, tmp_path: Path
) -> None:
    with running(write(settings)) as daemon:
        assert daemon.post("/-/reload", {"Origin": "https://evil.example"})[0] == 403
        assert daemon.post("/-/reload")[0] == 200
    (tmp_path / "token").write_text("s3cret\n")
    settings["web"]["token_file"] = "token"
    with running(write(settings)) as daemon:
        assert daemon.post("/-/reload")[0] == 401
        assert daemon.post("/-/reload", {"Authorization": "Bearer wrong"})[0] == 401
        assert daemon.post("/-/reload", {"Authorization": "Bearer s3cret"})[0] == 200
        assert "s3cret" not in daemon.log
