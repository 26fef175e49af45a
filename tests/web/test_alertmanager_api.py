"""Alerts and silences in Alertmanager's API: shapes, filters, refusals, mistakes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from tests.notify.alerts import BESIDE, FIRED, URL
from tests.support.server import serve
from tests.web.desk import StubDesk

from enginewatch.notify.silence import silenced_by
from enginewatch.web.silences_api import SilencesApi

NOW = 1_764_532_000_000

POSTED = {
    "matchers": [{"name": "deployment", "value": "chat", "isRegex": False}],
    "startsAt": "2025-11-30T19:00:00Z",
    "endsAt": "2025-11-30T21:00:00.5+01:00",
    "createdBy": "ana",
    "comment": "we know",
}


def get(api: str, path: str, **params: str) -> Any:
    answer = httpx.get(f"{api}/api/v2/{path}", params=params, timeout=10)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_an_alert_has_what_the_schema_requires(api: str) -> None:
    (found,) = get(api, "alerts", filter='instance="gpu-1:8000",severity="page"')
    assert found["labels"] == dict(FIRED.labels)
    assert found["annotations"] == dict(FIRED.annotations)
    assert found["startsAt"] == "2025-11-30T19:45:46.000Z"
    assert found["fingerprint"] == FIRED.fingerprint
    assert found["generatorURL"] == f"{URL}/alerts/{FIRED.fingerprint}"
    assert found["receivers"] == [{"name": "on-call"}]
    assert found["status"] == {
        "state": "active",
        "silencedBy": [],
        "inhibitedBy": [],
        "mutedBy": [],
    }
    assert found["updatedAt"] < found["endsAt"]


def test_groups_are_as_they_are_told(api: str) -> None:
    found = get(api, "alerts/groups")
    shown = [(g["labels"]["deployment"], g["receiver"]["name"], len(g["alerts"])) for g in found]
    assert shown == [("batch", "desk", 1), ("chat", "on-call", 2)]
    assert len(get(api, "alerts/groups", receiver="desk")) == 1


def test_receivers(api: str) -> None:
    assert get(api, "receivers") == [{"name": "desk"}, {"name": "on-call"}]


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"filter": "nonsense"}, "parameter filter"),
        ({"filter": 'a=~"("'}, "regular expression"),
        ({"receiver": "("}, "parameter receiver"),
        ({"active": "maybe"}, "neither true nor false"),
    ],
)
@pytest.mark.parametrize("path", ["alerts", "alerts/groups"])
def test_a_mistake_is_said_in_a_json_string(
    api: str, path: str, params: dict[str, str], said: str
) -> None:
    answer = httpx.get(f"{api}/api/v2/{path}", params=params, timeout=10)
    assert answer.status_code == 400
    assert said in answer.json()


@pytest.fixture
def refuses() -> list[bool]:
    return []


@pytest.fixture
def client(desk: StubDesk, refuses: list[bool]) -> Iterator[httpx.Client]:
    writing = SilencesApi(
        desk,
        lambda: NOW,
        lambda _: PlainTextResponse("no", status_code=401) if refuses else None,
    )
    with (
        serve(Starlette(routes=writing.routes())) as url,
        httpx.Client(base_url=url, timeout=10) as client,
    ):
        yield client


def test_a_silence_is_taken_and_shown(client: httpx.Client, desk: StubDesk) -> None:
    answer = client.post("/api/v2/silences", json=POSTED)
    id_ = answer.json()["silenceID"]
    assert client.get(f"/api/v2/silence/{id_}").json() == {
        "id": id_,
        "status": {"state": "active"},
        "matchers": [
            {"name": "deployment", "value": "chat", "isRegex": False, "isEqual": True},
        ],
        "startsAt": "2025-11-30T19:46:40.000Z",
        "endsAt": "2025-11-30T20:00:00.500Z",
        "updatedAt": "2025-11-30T19:46:40.000Z",
        "createdBy": "ana",
        "comment": "we know",
    }
    assert silenced_by(desk.silences.active(NOW), BESIDE.labels) == (id_,)
    assert desk.kept == 1


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ({"matchers": []}, 400, "needs a matcher"),
        ({"matchers": [{"name": "a", "value": "", "isRegex": False}]}, 400, "everything"),
        ({"matchers": [{"name": "a", "value": "(", "isRegex": True}]}, 400, "regular expression"),
        ({"matchers": [{"name": "a", "value": 5, "isRegex": True}]}, 400, "matchers.0.value"),
        ({"matchers": "all"}, 400, "matchers"),
        ({"endsAt": "tomorrow"}, 400, "endsAt"),
        ({"endsAt": 1_900_000_000_000}, 400, "endsAt"),
        ({"endsAt": "2025-11-30T18:00:00Z"}, 400, "ends before it begins"),
        ({"comment": " "}, 400, "needs a comment"),
        ({"createdBy": None}, 400, "createdBy"),
        ({"id": "unknown"}, 404, "no silence has the id"),
        ({"comment": "x" * 2_000_000}, 400, "longer than"),
    ],
)
def test_a_silence_that_can_not_be_meant(
    client: httpx.Client, desk: StubDesk, change: dict[str, Any], status: int, said: str
) -> None:
    answer = client.post("/api/v2/silences", json={**POSTED, **change})
    assert answer.status_code == status
    assert said in answer.json()
    assert not desk.silences.all()


@pytest.mark.parametrize("body", ["", "[]", "{", "null", '"x"', "\xff"])
def test_a_body_that_is_none(client: httpx.Client, body: str) -> None:
    answer = client.post("/api/v2/silences", content=body.encode("latin-1"))
    assert answer.status_code == 400
    assert json.loads(answer.text)


def test_only_what_is_there_can_be_seen_and_expired(client: httpx.Client) -> None:
    assert client.get("/api/v2/silence/unknown").status_code == 404
    assert client.delete("/api/v2/silence/unknown").status_code == 404


def test_nothing_changes_without_leave(
    client: httpx.Client, desk: StubDesk, refuses: list[bool]
) -> None:
    id_ = client.post("/api/v2/silences", json=POSTED).json()["silenceID"]
    refuses.append(True)
    assert client.post("/api/v2/silences", json=POSTED).status_code == 401
    assert client.delete(f"/api/v2/silence/{id_}").status_code == 401
    assert silenced_by(desk.silences.active(NOW), FIRED.labels) == (id_,)
    assert client.get("/api/v2/silences").status_code == 200
