"""The page behind the link: what it says, what it does, and what it does not let in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from tests.notify.alerts import BESIDE, FIRED, resolved, saying
from tests.support.server import serve
from tests.web.desk import StubDesk

from enginewatch.errors import EnginewatchError
from enginewatch.model import Labels
from enginewatch.notify.outbox import Entry, EntryState
from enginewatch.web.admin import Admin
from enginewatch.web.alert_page import AlertPages
from enginewatch.web.desk import Delivery
from enginewatch.web.pages import environment

NOW = 1_764_532_000_000
FORM = {"scope": "hazard", "span": "2h", "by": "ana", "comment": "we know"}


@pytest.fixture
def token() -> list[str]:
    """The API token, if any."""
    return []


@pytest.fixture
def client(desk: StubDesk, token: list[str]) -> Iterator[httpx.Client]:
    async def nothing() -> None: ...

    def read_token() -> str | None:
        if token and token[0] == "unreadable":
            raise EnginewatchError("token: can't read the secret")
        return token[0] if token else None

    admin = Admin(
        CollectorRegistry(),
        lambda: None,
        lambda: None,
        nothing,
        read_token,
    )
    pages = AlertPages(desk, lambda: NOW, admin.refusal, admin.needs_token, environment())
    with (
        serve(Starlette(routes=pages.routes())) as url,
        httpx.Client(base_url=url, timeout=10) as client,
    ):
        yield client


PATH = f"/alerts/{FIRED.fingerprint}"


def test_it_says_what_is_known(client: httpx.Client, desk: StubDesk) -> None:
    desk.told = (
        Delivery("on-call/slack[0]", NOW - 60_000, "posted C1 12.3"),
        Delivery("on-call/pagerduty[0]", attempts=3),
    )
    desk.inhibited[FIRED.labels] = (BESIDE.labels,)
    page = client.get(PATH).text
    for part in (
        "chat: gpu-1:8000 holds 4 requests and generates nothing",
        "Every request to chat hangs.",
        "4 (threshold &gt; 0)",
        "2025-11-30 19:45:46 UTC, 54s ago",
        "step 41 took 300 s\nworker 1 did not answer",
        '<a href="https://runbooks.example/stuck_engine.md" rel="noreferrer">Runbook</a>',
        "Routed to on-call.",
        "1m ago",
        "posted C1 12.3",
        "none yet",
        f'<a href="/alerts/{BESIDE.fingerprint}">EngineStuck gpu-2:8000</a>',
        'name="viewport"',
    ):
        assert part in page
    assert "<script" not in page


def test_its_history_tells_how_each_notification_fared(
    client: httpx.Client, desk: StubDesk
) -> None:
    taken = Entry(
        *("id", "on-call/slack[0]", "key", "new_alerts", 2, 1, NOW, EntryState.DELIVERED, 3),
        *(NOW - 90_000, "posted C1 12.3"),
    )
    refused = taken._replace(state=EntryState.FAILED, detail="answered 403: <b>no</b>", attempts=1)
    desk.record = (taken, refused, *[taken._replace(detail="older")] * 60)
    page = client.get(PATH).text
    for part in ("new alerts", "2 firing, 1 resolved", "delivered at attempt 3", "1m30s ago"):
        assert part in page
    assert '<td class="firing">failed</td><td>answered 403: &lt;b&gt;no&lt;/b&gt;</td>' in page
    assert page.count("older") == 48


def test_what_nobody_is_told_of_is_said(client: httpx.Client, desk: StubDesk) -> None:
    desk.root = replace(desk.root, receiver="", routes=())
    assert "Nobody" in client.get(PATH).text


def test_a_resolved_alert_has_nothing_to_silence(client: httpx.Client, desk: StubDesk) -> None:
    desk.known = [resolved()]
    page = client.get(PATH).text
    assert "RESOLVED" in page
    assert "after 1m35s" in page
    assert "<form" not in page


def test_an_unknown_alert(client: httpx.Client) -> None:
    answer = client.get("/alerts/<b>x")
    assert answer.status_code == 404
    assert "&lt;b&gt;x" in answer.text


HOSTILE = "</pre><script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{ 7*7 }}"


def test_hostile_text_stays_text(client: httpx.Client, desk: StubDesk) -> None:
    labels = Labels(dict.fromkeys(FIRED.labels, HOSTILE))
    hostile = replace(
        saying(
            summary=HOSTILE,
            description=HOSTILE,
            evidence=HOSTILE,
            impact=HOSTILE,
            runbook_url="javascript:alert(1)",
            dashboard_url=f"https://x.example/{HOSTILE}",
        ),
        labels=labels,
    )
    desk.known = [hostile]
    desk.told = (Delivery(HOSTILE, NOW, HOSTILE),)
    sent = EntryState.SENDING
    desk.record = (Entry("id", HOSTILE, HOSTILE, HOSTILE, 1, 0, NOW, sent, 1, NOW, HOSTILE),)
    path = f"/alerts/{hostile.fingerprint}"
    posted = client.post(f"{path}/silence", data={**FORM, "by": HOSTILE, "comment": HOSTILE})
    assert posted.status_code == 303
    answer = client.get(path)
    assert answer.status_code == 200
    for forbidden in ("<script", "<img", "javascript:"):
        assert forbidden not in answer.text
    assert "{{ 7*7 }}" in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "form-action 'self'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("scope", "matchers"),
    [
        ("hazard", {'deployment="chat"', 'verdict="stuck_engine"'}),
        ("deployment", {'deployment="chat"'}),
        ("alert", {f'{name}="{value}"' for name, value in FIRED.labels.items()}),
    ],
)
def test_the_form_silences(
    client: httpx.Client, desk: StubDesk, scope: str, matchers: set[str]
) -> None:
    answer = client.post(f"{PATH}/silence", data={**FORM, "scope": scope})
    assert (answer.status_code, answer.headers["location"]) == (303, PATH)
    (silence,) = desk.silences.all()
    assert {str(each) for each in silence.matchers} == matchers
    assert silence.ends_at - silence.starts_at == 2 * 3_600_000
    assert desk.kept == 1
    assert "Silenced by ana for another 2h: we know" in client.get(PATH).text


@pytest.mark.parametrize(
    "change",
    [
        {"scope": "all"},
        {"scope": ""},
        {"span": "long"},
        {"span": "0s"},
        {"by": ""},
        {"comment": ""},
    ],
)
def test_a_form_that_can_not_be_meant(
    client: httpx.Client, desk: StubDesk, change: dict[str, str]
) -> None:
    answer = client.post(f"{PATH}/silence", data={**FORM, **change})
    assert answer.status_code == 400
    assert "Not silenced" in answer.text
    assert not desk.silences.all()


def test_with_a_token_the_form_asks_for_it(
    client: httpx.Client, desk: StubDesk, token: list[str]
) -> None:
    assert 'name="token"' not in client.get(PATH).text
    token.append("s3cret")
    assert 'name="token"' in client.get(PATH).text
    for wrong in ({}, {"token": "wrong"}):
        answer = client.post(f"{PATH}/silence", data={**FORM, **wrong})
        assert answer.status_code == 401
        assert 'value="we know"' in answer.text
    assert not desk.silences.all()
    assert client.post(f"{PATH}/silence", data={**FORM, "token": "s3cret"}).status_code == 303
    header = {"Authorization": "Bearer s3cret"}
    assert client.post(f"{PATH}/silence", data=FORM, headers=header).status_code == 303


def test_a_token_that_can_not_be_read_hides_no_alert(
    client: httpx.Client, desk: StubDesk, token: list[str]
) -> None:
    token.append("unreadable")
    assert client.get(PATH).status_code == 200
    assert client.post(f"{PATH}/silence", data={**FORM, "token": "x"}).status_code == 503
    assert not desk.silences.all()


@pytest.mark.parametrize("origin", ["https://evil.example", "null"])
def test_another_sites_form_is_refused(client: httpx.Client, desk: StubDesk, origin: str) -> None:
    answer = client.post(f"{PATH}/silence", data=FORM, headers={"Origin": origin})
    assert answer.status_code == 403
    assert not desk.silences.all()
    own = {"Origin": str(client.base_url).rstrip("/")}
    assert client.post(f"{PATH}/silence", data=FORM, headers=own).status_code == 303
    # Or the browser would say `Origin: null` itself.
    assert client.get(PATH).headers["referrer-policy"] == "same-origin"


def test_a_silence_that_can_not_be_saved_is_in_force_and_says_so(
    client: httpx.Client, desk: StubDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full() -> None:
        raise EnginewatchError("the disk is full")

    monkeypatch.setattr(desk, "keep", full)
    answer = client.post(f"{PATH}/silence", data=FORM)
    assert answer.status_code == 500
    assert "the disk is full" in answer.text
    assert desk.silences.all()
