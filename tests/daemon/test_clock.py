"""The wall clock is set while a real daemon works: nobody is told twice, late, or not at all."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
import yaml
from tests.daemon.conftest import FIRED, RESOLVED, RULES, Write
from tests.support.clock import SetClock
from tests.support.daemon import WITHIN, Daemon, Engine, Hook, eventually, running

from enginewatch.rulepack import rules_path
from enginewatch.units import format_time

pytestmark = pytest.mark.integration

HOUR = 3_600
LOUD = {
    "alert": "TooLoud",
    "expr": "noise > 10",
    "labels": {"verdict": "cuda_oom", "severity": "page"},
}
LOUD_FIRED = ("firing", "TooLoud")
NOTICED = "the clock was set by", "the clock was set: all scrapes"
CLOCK_SET = ("firing", "WatchdogClockSet")


@pytest.fixture
def clock(tmp_path: Path) -> SetClock:
    return SetClock(tmp_path / "clock")


@pytest.fixture
def config(settings: dict[str, Any], write: Write, engine: Engine) -> Path:
    """Its own rules judge it, too: a step must not look like a provider that is down."""
    engine.page = "temperature 5\nnoise 1\n"
    settings["route"]["repeat_interval"] = "30m"
    settings["rule_files"] += ["loud.yml", str(rules_path() / "hazards" / "watchdog_self.yml")]
    path = write(settings)
    groups = [RULES["groups"][0], {"name": "noise", "rules": [LOUD]}]
    path.with_name("loud.yml").write_text(yaml.safe_dump({"groups": groups[1:]}))
    return path


def silence(daemon: Daemon, clock: SetClock, alertname: str, seconds: int) -> str:
    body = {
        "matchers": [{"name": "alertname", "value": alertname, "isRegex": False}],
        "startsAt": format_time(round(clock.now() * 1000)),
        "endsAt": format_time(round((clock.now() + seconds) * 1000)),
        "createdBy": "ana",
        "comment": "known",
    }
    headers = {"Content-Type": "application/json"}
    request = Request(f"{daemon.url}/api/v2/silences", json.dumps(body).encode(), headers)
    with urlopen(request, timeout=WITHIN) as answer:
        return str(json.load(answer)["silenceID"])


def suppressed(daemon: Daemon, alertname: str) -> bool:
    alerts = daemon.get("/api/v2/alerts", filter=f"alertname={alertname}")
    return any(alert["status"]["state"] == "suppressed" for alert in alerts)


def step(daemon: Daemon, clock: SetClock, seconds: int) -> None:
    """Set the clock; until that was noticed, and rules judge by what was scraped after it.

    At a time that has been before, queries find what was there then: the log does not.
    """

    def told(what: str) -> int:
        return daemon.log.count(what)

    def judged() -> bool:
        scraped = daemon.value("timestamp(temperature)")
        alerts = daemon.get("/api/v1/alerts")["data"]["alerts"]
        known = [one["labels"]["alertname"] for one in alerts if not one.get("unknown")]
        return scraped is not None and scraped > set_at and "TooHot" in known

    before = [told(what) for what in NOTICED]
    clock.set(seconds)
    set_at = clock.now()
    eventually(lambda: all(told(w) > n for w, n in zip(NOTICED, before, strict=True)), "a step")
    eventually(judged, "the alert to be judged by the new time")
    eventually(lambda: daemon.value("ALERTS{alertname='WatchdogClockSet'}"), "its own verdict")


@pytest.mark.parametrize("span", [HOUR, -HOUR], ids=["forward", "back"])
def test_an_incident_goes_on_as_if_the_clock_had_not_been_set(
    config: Path, clock: SetClock, engine: Engine, hook: Hook, tmp_path: Path, span: int
) -> None:
    with running(config, program=clock.program) as daemon:
        eventually(lambda: daemon.value("temperature") == 5, "the first scrape")
        silence(daemon, clock, "TooLoud", 1_800)
        hook.refuse = 1
        engine.page = "temperature 42\nnoise 42\n"
        attempts = 'enginewatch_notification_attempts_failed_total{reason="server_error"}'
        eventually(lambda: hook.refuse == 0, "an attempt that fails")
        step(daemon, clock, span)
        eventually(lambda: FIRED in hook.told(), "the page, at its second attempt")
        assert (daemon.value(attempts) or 0) == 1
        # It waits for its repetition now. The clock is put right again.
        step(daemon, clock, -span)
        step(daemon, clock, span)
        assert suppressed(daemon, "TooLoud"), (daemon.get("/api/v2/alerts"), clock.now())
        engine.page = "temperature 7\nnoise 42\n"
        eventually(lambda: RESOLVED in hook.told(), "the resolve")
        assert daemon.stop() == 0
    assert [one for one in hook.told() if one != CLOCK_SET] == [FIRED, RESOLVED]
    assert hook.told().count(CLOCK_SET) == 1
    with running(config, program=clock.program) as daemon:
        eventually(lambda: daemon.value("ALERTS{alertname='TooLoud'}"), "what went on firing")
        assert suppressed(daemon, "TooLoud"), (daemon.get("/api/v2/alerts"), clock.now())
        assert daemon.value("enginewatch_state_lost_timestamp_seconds") == 0
        assert daemon.stop() == 0
    assert LOUD_FIRED not in hook.told()
    assert not list((tmp_path / "state").glob("*.broken-*"))


def test_a_clock_that_is_set_to_and_fro_within_a_second_stops_no_scrape(
    config: Path, clock: SetClock, engine: Engine, hook: Hook
) -> None:
    with running(config, program=clock.program) as daemon:
        eventually(lambda: daemon.value("temperature") == 5, "the first scrape")
        for _ in range(3):
            clock.set(-HOUR)
            time.sleep(0.6)  # a scrape falls due meanwhile, a look at the clock may not
            clock.set(HOUR)
            time.sleep(0.2)
        engine.page = "temperature 42\n"
        eventually(lambda: FIRED in hook.told(), "the page")
