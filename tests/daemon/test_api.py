"""The API through the clients that people use: promtool, prometheus-api-client, plain HTTP."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from tests.daemon.conftest import settings_in
from tests.support.daemon import Daemon, Engine, Hook, eventually, running, write_config
from tests.support.server import serve

pytestmark = pytest.mark.integration

PAGE = """\
# HELP temperature How warm it is.
# TYPE temperature gauge
temperature{place="inside"} 42
temperature{place="outside"} 5
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One for all tests here: they only read."""
    folder = tmp_path_factory.mktemp("api")
    with serve(Engine(PAGE).app()) as engine, serve(Hook().app()) as hook:
        tree = settings_in(folder, engine, f"{hook}/hook")
        with running(write_config(folder / "enginewatch.yml", tree)) as started:
            eventually(lambda: started.value('ALERTS{alertstate="firing"}'), "the alert to fire")
            yield started


def error(daemon: Daemon, path: str, **params: str) -> tuple[int, dict[str, Any]]:
    with pytest.raises(HTTPError) as caught:
        urlopen(f"{daemon.url}{path}?{urlencode(params)}", timeout=10)
    with caught.value as answer:
        return answer.code, json.load(answer)


def test_it_answers_as_prometheus_does(daemon: Daemon) -> None:
    found = daemon.get("/api/v1/query", query='temperature{place="inside"}')
    assert found["status"] == "success"
    assert found["data"]["resultType"] == "vector"
    (one,) = found["data"]["result"]
    assert one["metric"]["__name__"] == "temperature"
    assert one["metric"]["deployment"] == "chat-prod"
    assert one["value"][1] == "42"
    assert daemon.get("/api/v1/query", query="1 + 1", time="1700000000")["data"] == {
        "resultType": "scalar",
        "result": [1700000000, "2"],
    }
    assert daemon.get("/api/v1/query", query='"text"')["data"]["result"][1] == "text"
    window = daemon.get("/api/v1/query", query='temperature{place="inside"}[1m]')["data"]
    assert window["resultType"] == "matrix"
    assert window["result"][0]["values"][0][1] == "42"


def test_names_labels_and_metadata(daemon: Daemon) -> None:
    assert "place" in daemon.get("/api/v1/labels")["data"]
    assert daemon.get("/api/v1/label/place/values")["data"] == ["inside", "outside"]
    inside = {"match[]": 'temperature{place="inside"}'}
    selected = daemon.get("/api/v1/label/__name__/values", **inside)
    assert selected["data"] == ["temperature"]
    series = daemon.get("/api/v1/series", **{"match[]": "temperature"})["data"]
    assert [one["place"] for one in series] == ["inside", "outside"]
    assert daemon.get("/api/v1/metadata", metric="temperature")["data"] == {
        "temperature": [{"type": "gauge", "help": "How warm it is.", "unit": ""}]
    }


def test_rules_alerts_and_targets(daemon: Daemon) -> None:
    (group,) = daemon.get("/api/v1/rules")["data"]["groups"]
    recording, alerting = group["rules"]
    assert (recording["type"], recording["health"]) == ("recording", "ok")
    assert (alerting["type"], alerting["state"]) == ("alerting", "firing")
    assert alerting["duration"] == 1
    (alert,) = alerting["alerts"]
    assert alert["value"] == "4.200000e+01"
    assert daemon.get("/api/v1/alerts")["data"]["alerts"] == [alert]
    only = daemon.get("/api/v1/rules", type="alert")["data"]["groups"][0]["rules"]
    assert [rule["name"] for rule in only] == ["TooHot"]
    (target,) = daemon.get("/api/v1/targets")["data"]["activeTargets"]
    assert target["health"] == "up"
    assert target["scrapePool"] == "chat"
    assert target["lastError"] == ""
    assert daemon.get("/api/v1/status/buildinfo")["data"]["application"] == "enginewatch"


@pytest.mark.parametrize(
    ("path", "params", "status", "kind", "said"),
    [
        ("/api/v1/query", {}, 400, "bad_data", "parameter query: is missing"),
        ("/api/v1/query", {"query": "sum("}, 400, "bad_data", "1:5"),
        ("/api/v1/query", {"query": "up", "time": "noon"}, 400, "bad_data", "not a time"),
        ("/api/v1/query_range", {"query": "up", "start": "1", "end": "2"}, 400, "bad_data", "step"),
        (
            "/api/v1/query_range",
            {"query": "up", "start": "1", "end": "0", "step": "1"},
            400,
            "bad_data",
            "before start",
        ),
        (
            "/api/v1/query_range",
            {"query": "up", "start": "0", "end": "1000000", "step": "1"},
            400,
            "bad_data",
            "11000 points",
        ),
        (
            "/api/v1/query_range",
            {"query": "up[1m]", "start": "1", "end": "2", "step": "1"},
            422,
            "execution",
            "range",
        ),
        ("/api/v1/series", {}, 400, "bad_data", "match[]"),
        ("/api/v1/series", {"match[]": "rate(up[1m])"}, 400, "bad_data", "not a series selector"),
        ("/api/v1/query", {"query": "temperature * on() temperature"}, 422, "execution", "many"),
        ("/api/v1/rules", {"type": "both"}, 400, "bad_data", "alert or record"),
    ],
)
def test_a_mistake_is_told_as_prometheus_tells_it(
    daemon: Daemon, path: str, params: dict[str, str], status: int, kind: str, said: str
) -> None:
    code, body = error(daemon, path, **params)
    assert code == status
    assert body["status"] == "error"
    assert body["errorType"] == kind
    assert said in body["error"]


def test_the_status_page_is_plain_and_keeps_hostile_text_text(config: Path, engine: Engine) -> None:
    engine.page = 'temperature{place="<script>alert(1)</script>"} 42\n'
    with running(config) as daemon:
        eventually(lambda: daemon.value('ALERTS{alertstate="firing"}'), "the alert to fire")
        with urlopen(f"{daemon.url}/", timeout=10) as answer:
            page = answer.read().decode()
            policy = answer.headers["Content-Security-Policy"]
    assert "TooHot" in page
    assert "chat-prod" in page
    assert "<script" not in page
    assert "default-src 'none'" in policy


def promtool(*arguments: str) -> str:
    if shutil.which("promtool") is None:
        pytest.skip("needs promtool: apt-get install prometheus")
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_promtool_queries_it(daemon: Daemon) -> None:
    instant = promtool("query", "instant", daemon.url, 'temperature{place="inside"}')
    assert 'place="inside"' in instant
    assert "=> 42" in instant
    now = time.time()
    ranged = promtool(
        "query",
        "range",
        f"--start={now - 60:.0f}",
        f"--end={now:.0f}",
        "--step=1s",
        daemon.url,
        "job:temperature:max",
    )
    assert "42 @" in ranged
    series = promtool("query", "series", "--match=temperature", daemon.url)
    assert series.count("temperature") == 2
    assert promtool("query", "labels", daemon.url, "place").split() == ["inside", "outside"]


@pytest.mark.filterwarnings("ignore")  # pandas and dateparser, which the client imports, warn
def test_prometheus_api_client_queries_it(daemon: Daemon) -> None:
    from prometheus_api_client import PrometheusConnect

    client = PrometheusConnect(url=daemon.url)
    assert client.check_prometheus_connection()
    (value,) = client.get_current_metric_value("temperature", {"place": "outside"})
    assert value["value"][1] == "5"
    assert "temperature" in client.all_metrics()
    assert client.custom_query("max(temperature)")[0]["value"][1] == "42"
    found = client.get_metric_range_data("temperature", {"place": "inside"})
    assert found[0]["values"][-1][1] == "42"
    assert client.get_targets()["activeTargets"][0]["health"] == "up"
