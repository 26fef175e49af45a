"""The daemon in front of Debian's Alertmanager, as Prometheus would be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.daemon.conftest import FIRED, RESOLVED, Write
from tests.support.daemon import Engine, Hook, eventually, running
from tests.support.real_alertmanager import BINARY, alertmanager, get

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(BINARY is None, reason="needs prometheus-alertmanager"),
]


def test_an_alert_stays_for_as_long_as_it_fires_and_ends_with_it(
    settings: dict[str, Any],
    write: Write,
    engine: Engine,
    hook: Hook,
    hook_url: str,
    tmp_path: Path,
) -> None:
    with alertmanager(tmp_path, hook_url) as url:
        # It would be over there after a second, were it not sent again.
        settings["receivers"] = [
            {"name": "am", "alertmanager_configs": [{"url": url, "resend_delay": "250ms"}]}
        ]
        settings["route"] = {"receiver": "am", "group_wait": "0s", "group_interval": "10s"}
        engine.page = "temperature 42\n"
        with running(write(settings)) as daemon:
            eventually(lambda: hook.told() == [FIRED], "the page")
            (first,) = get(f"{url}/api/v2/alerts")
            eventually(
                lambda: get(f"{url}/api/v2/alerts")[0]["endsAt"] > first["endsAt"], "a later end"
            )
            taken = 'enginewatch_notifications_delivered_total{receiver="am/alertmanager[0]"}'
            eventually(lambda: (daemon.value(taken) or 0) > 8, "two lives of it")
            assert hook.told() == [FIRED]
            assert get(f"{url}/api/v2/alerts")[0]["startsAt"] == first["startsAt"]
            engine.page = "temperature 7\n"
            eventually(lambda: hook.told() == [FIRED, RESOLVED], "the resolve")

            engine.page = "temperature 43\n"
            eventually(lambda: hook.told()[2:] == [FIRED], "the next page")
            daemon.kill()
        eventually(lambda: hook.told()[3:] == [RESOLVED], "the end of what nobody watches")
