"""What the daemon is made of, from its configuration."""

from __future__ import annotations

import socket

import pytest

from enginewatch.config import Config
from enginewatch.wiring import external_url

HOST = socket.gethostname()


@pytest.mark.parametrize(
    ("web", "expected"),
    [
        ({}, "http://127.0.0.1:9469"),
        ({"listen": "0.0.0.0:9469"}, f"http://{HOST}:9469"),
        ({"listen": "[::]:80"}, f"http://{HOST}:80"),
        ({"listen": "[fd00::1]:80"}, "http://[fd00::1]:80"),
        ({"listen": "127.0.0.1:0"}, "http://127.0.0.1:4321"),
        ({"listen": "127.0.0.1:0", "external_url": "https://w.example/"}, "https://w.example"),
    ],
)
def test_links_lead_where_people_reach_the_daemon(web: dict[str, str], expected: str) -> None:
    assert external_url(Config.model_validate({"web": web}), port=4321) == expected
