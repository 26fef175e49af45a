"""`enginewatch notify test` and `enginewatch silence` against servers that answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.notify.alerts import FIRED
from tests.support.cli import Run, console_script
from tests.support.daemon import Hook
from tests.support.providers import PagerDuty, Slack
from tests.support.server import serve
from tests.web.desk import StubDesk, serving

from enginewatch.notify.silence import silenced_by


@pytest.fixture
def enginewatch(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return console_script(monkeypatch, capsys)


@pytest.fixture
def desk() -> StubDesk:
    return StubDesk()


@pytest.fixture
def api(desk: StubDesk) -> Iterator[str]:
    with serving(desk) as url:
        yield url


def write(folder: Path, **settings: Any) -> Path:
    (folder / "enginewatch.yml").write_text(yaml.safe_dump(settings))
    return folder


def on_call(**integrations: Any) -> dict[str, Any]:
    return {"receivers": [{"name": "on-call", **integrations}, {"name": "nobody"}]}


def test_a_test_page_and_its_resolve_arrive(enginewatch: Run, tmp_path: Path) -> None:
    slack, pagerduty, hook = Slack(), PagerDuty(), Hook()
    (tmp_path / "key").write_text(PagerDuty.KEY)
    with serve(slack.app()) as s, serve(pagerduty.app()) as p, serve(hook.app()) as h:
        bot = {"app_token": Slack.TOKEN, "channel": "#alerts", "app_url": f"{s}/api"}
        key = {"routing_key_file": "key", "url": f"{p}/v2/enqueue"}
        settings = on_call(
            slack_configs=[bot, {"api_url": f"{s}/webhook", "send_resolved": False}],
            pagerduty_configs=[key],
            webhook_configs=[{"url": f"{h}/hook"}],
        )
        done = enginewatch("notify", "test", "on-call", cwd=write(tmp_path, **settings))
    assert done.returncode == 0, done.stderr
    assert sorted(line.split(": ", 2)[:2] for line in done.stdout.splitlines()) == [
        ["on-call/pagerduty[0]", "firing"],
        ["on-call/pagerduty[0]", "resolved"],
        ["on-call/slack[0]", "firing"],
        ["on-call/slack[0]", "resolved"],
        ["on-call/slack[1]", "firing"],
        ["on-call/slack[1]", "resolved"],
        ["on-call/webhook[0]", "firing"],
        ["on-call/webhook[0]", "resolved"],
    ]
    assert "slack[1]: resolved: not sent" in done.stdout
    assert "Event processed" in done.stdout
    assert [m["text"] for m in slack.top] == [
        "RESOLVED: Test of enginewatch: nothing is wrong",
        "FIRING: Test of enginewatch: nothing is wrong",
    ]
    (incident,) = pagerduty.incidents
    assert not incident.open
    assert [status for status, _ in hook.told()] == ["firing", "resolved"]


def test_what_is_refused_is_shown_without_the_secret(enginewatch: Run, tmp_path: Path) -> None:
    wrong = "f" * 32
    with serve(PagerDuty().app()) as url:
        config = {"routing_key": wrong, "url": f"{url}/v2/enqueue"}
        settings = on_call(pagerduty_configs=[config], console_configs=[{}])
        folder = write(tmp_path, **settings)
        done = enginewatch("notify", "test", "on-call/pagerduty[0]", cwd=folder)
    assert done.returncode == 1
    assert "FAILED: answered 400" in done.stderr
    assert wrong not in done.stdout + done.stderr
    assert "console" not in done.stdout


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("other", "no receiver is called 'other' (known: on-call, nobody, on-call/console[0])"),
        ("nobody", "tells nobody"),
    ],
)
def test_a_receiver_that_is_none(enginewatch: Run, tmp_path: Path, name: str, said: str) -> None:
    folder = write(tmp_path, **on_call(console_configs=[{}]))
    done = enginewatch("notify", "test", name, cwd=folder)
    assert done.returncode == 2
    assert said in done.stderr


def test_silences_are_added_listed_and_expired(
    enginewatch: Run,
    tmp_path: Path,
    api: str,
    desk: StubDesk,
) -> None:
    folder = write(tmp_path, web={"listen": api.removeprefix("http://")})
    add = ("silence", "add", "deployment=chat", 'instance=~"gpu-1.*"', "-m", "we\nknow")
    done = enginewatch(*add, "--for", "2h", "--by", "ana", cwd=folder)
    assert done.returncode == 0, done.stderr
    id_ = done.stdout.strip()
    assert desk.silences.get(id_).created_by == "ana"
    assert silenced_by(desk.silences.active(desk.silences.get(id_).starts_at), FIRED.labels) == (
        id_,
    )

    (line,) = enginewatch("silence", "list", "deployment=chat").stdout.splitlines()
    assert line.startswith(f"{id_} active 20")
    assert line.endswith('{deployment="chat",instance=~"gpu-1.*"} ana: we know')
    assert enginewatch("silence", "list", "deployment=other").stdout == ""

    assert enginewatch("silence", "expire", id_).returncode == 0
    assert enginewatch("silence", "list").stdout == ""
    assert "expired" in enginewatch("silence", "list", "--expired").stdout
    again = enginewatch("silence", "expire", id_)
    assert (again.returncode, "already expired" in again.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("add",), "needs a matcher"),
        (("add", "nonsense", "-m", "x"), "no matcher"),
        (("add", "a=b"), "needs a comment"),
        (("add", "a=b", "-m", "x", "--for", "long"), "--for"),
        (("expire", "unknown"), "no silence has the id"),
    ],
)
def test_a_mistake_is_one_line(
    enginewatch: Run,
    api: str,
    arguments: tuple[str, ...],
    said: str,
) -> None:
    done = enginewatch("silence", *arguments, "--url", api)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "nonsense", "http://[::1"])
def test_a_daemon_that_is_not_there(enginewatch: Run, url: str) -> None:
    done = enginewatch("silence", "list", "--url", url)
    assert done.returncode == 2
    assert "is the daemon running?" in done.stderr
