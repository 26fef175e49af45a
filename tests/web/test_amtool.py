"""Debian's `amtool` against our API: what people type at three in the morning."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from tests.notify.alerts import BESIDE, FIRED
from tests.support.real_alertmanager import AMTOOL
from tests.web.desk import StubDesk

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(AMTOOL is None, reason="needs amtool"),
]


def amtool(api: str, *arguments: str) -> str:
    assert AMTOOL is not None
    command = [AMTOOL, f"--alertmanager.url={api}", "--no-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def query(api: str, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(amtool(api, *arguments, "-o", "json"))
    return found


def names(found: list[dict[str, Any]]) -> list[str]:
    return sorted(each["labels"]["instance"] + each["labels"]["alertname"] for each in found)


def test_it_lists_alerts(api: str) -> None:
    assert len(query(api, "alert", "query")) == 3
    assert names(query(api, "alert", "query", "severity=page")) == [
        "gpu-1:8000EngineStuck",
        "gpu-2:8000EngineStuck",
    ]
    assert names(query(api, "alert", "query", 'instance=~"gpu-[1]:.*"', "alertname!=Slow")) == [
        "gpu-1:8000EngineStuck"
    ]
    assert len(query(api, "alert", "query", "--receiver=desk")) == 1
    shown = amtool(api, "alert", "query", "-o", "extended", "alertname=Slow")
    assert 'deployment="batch"' in shown
    assert "slow" in shown


def test_it_adds_queries_and_expires_silences(api: str, desk: StubDesk) -> None:
    id_ = amtool(
        *(api, "silence", "add", "-a", "ana", "-c", "we know", "-d", "2h"),
        *('instance="gpu-1:8000"', "alertname=~Engine.*", "model!=other"),
    ).strip()
    assert desk.kept == 1
    (added,) = desk.silences.all()
    assert (added.id, added.created_by, added.comment) == (id_, "ana", "we know")
    assert {str(m) for m in added.matchers} == {
        'alertname=~"Engine.*"',
        'instance="gpu-1:8000"',
        'model!="other"',
    }
    assert names(query(api, "alert", "query", "severity=page")) == ["gpu-2:8000EngineStuck"]
    (silenced,) = query(api, "alert", "query", "--silenced", "instance=gpu-1:8000")
    assert silenced["fingerprint"] == FIRED.fingerprint
    assert silenced["status"]["silencedBy"] == [id_]

    assert [each["id"] for each in query(api, "silence", "query")] == [id_]
    assert query(api, "silence", "query", "instance=other") == []
    assert id_ in amtool(api, "silence", "query", "--within=3h", "-q")

    amtool(api, "silence", "update", "-d", "3h", "-c", "longer", id_)
    assert desk.silences.get(id_).comment == "longer"

    amtool(api, "silence", "expire", id_)
    assert query(api, "silence", "query") == []
    assert [each["id"] for each in query(api, "silence", "query", "--expired")] == [id_]
    assert len(query(api, "alert", "query", "severity=page")) == 2


def test_it_imports_what_it_exported(api: str, desk: StubDesk, tmp_path: Any) -> None:
    amtool(api, "silence", "add", "-a", "ana", "-c", "x", "alertname=Slow")
    exported = tmp_path / "silences.json"
    exported.write_text(amtool(api, "silence", "query", "-o", "json"))
    amtool(api, "silence", "import", "--force", str(exported))
    assert len(desk.silences.all()) == 2


def test_an_inhibited_alert_is_shown_only_when_asked_for(api: str, desk: StubDesk) -> None:
    desk.inhibited[BESIDE.labels] = (FIRED.labels,)
    assert len(query(api, "alert", "query", "severity=page")) == 1
    (inhibited,) = query(api, "alert", "query", "--inhibited", "instance=gpu-2:8000")
    assert inhibited["status"]["inhibitedBy"] == [FIRED.fingerprint]


def test_routes_and_status(api: str) -> None:
    assert "on-call" in amtool(api, "config", "routes", "show")
    routed = amtool(api, "config", "routes", "test", "severity=page", "deployment=chat")
    assert routed.strip() == "on-call"
    assert "disabled" in amtool(api, "cluster", "show")
