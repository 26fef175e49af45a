"""Debian's `amtool` against the daemon: silences that hold, outlive it, and ask for the token."""

from __future__ import annotations

import json
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.daemon.conftest import FIRED, Write
from tests.support.daemon import Engine, Hook, eventually, running
from tests.support.real_alertmanager import AMTOOL

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(AMTOOL is None, reason="needs amtool"),
]

ADD = ("silence", "add", "-a", "ana", "-c", "we know", "-d", "2h", "alertname=TooHot")


def amtool(url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    assert AMTOOL is not None
    command = [AMTOOL, f"--alertmanager.url={url}", "--no-version-check", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


def said(url: str, *arguments: str) -> str:
    done = amtool(url, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def alerts(url: str, *arguments: str) -> list[str]:
    listed = json.loads(said(url, "alert", "query", "-o", "json", *arguments))
    return [alert["labels"]["alertname"] for alert in listed]


def test_a_silence_holds_until_it_is_expired_and_over_a_crash(
    config: Path, engine: Engine, hook: Hook
) -> None:
    with running(config) as daemon:
        eventually(lambda: daemon.value("temperature") == 5, "the first scrape")
        id_ = said(daemon.url, *ADD)
        daemon.kill()
    engine.page = "temperature 42\n"
    with running(config) as daemon:
        eventually(lambda: alerts(daemon.url, "--silenced") == ["TooHot"], "the alert, silenced")
        assert alerts(daemon.url) == []
        (silence,) = json.loads(said(daemon.url, "silence", "query", "-o", "json"))
        assert (silence["id"], silence["createdBy"]) == (id_, "ana")
        assert hook.told() == []
        said(daemon.url, "silence", "expire", id_)
        eventually(lambda: hook.told() == [FIRED], "the page, now that nothing mutes it")
        assert alerts(daemon.url) == ["TooHot"]
        assert "hook" in said(daemon.url, "config", "routes", "show")
        assert daemon.stop() == 0


def test_the_token_is_asked_for_wherever_one_is_set(
    settings: dict[str, Any], write: Write, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    settings["web"]["token_file"] = "token"
    http = tmp_path / "http.yml"
    http.write_text("authorization: {credentials: s3cret}\n")
    with running(write(settings)) as daemon:
        refused = amtool(daemon.url, *ADD)
        assert refused.returncode != 0
        assert "401" in refused.stderr + refused.stdout
        id_ = said(daemon.url, f"--http.config.file={http}", *ADD)
        assert id_ in said(daemon.url, "silence", "query", "-q")  # who only reads needs none
        assert amtool(daemon.url, "silence", "expire", id_).returncode != 0
        said(daemon.url, f"--http.config.file={http}", "silence", "expire", id_)


def own_address() -> str | None:
    """An address of this machine that is not its loopback; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        found: str = probe.getsockname()[0]
    return None if found.startswith("127.") else found


def test_off_loopback_nothing_changes_without_a_token(
    settings: dict[str, Any], write: Write
) -> None:
    address = own_address()
    if address is None:
        pytest.skip("this machine has no address but its loopback")
    settings["web"]["listen"] = "0.0.0.0:0"
    with running(write(settings)) as daemon:
        port = daemon.url.rpartition(":")[2]
        elsewhere, here = f"http://{address}:{port}", f"http://127.0.0.1:{port}"
        assert alerts(elsewhere) == []
        assert amtool(elsewhere, *ADD).returncode != 0
        said(here, *ADD)
