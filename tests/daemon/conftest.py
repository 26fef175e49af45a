"""One engine, one webhook, one rule, and everything every half second."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.daemon import Engine, Hook, write_config
from tests.support.server import serve

Write = Callable[[dict[str, Any]], Path]
FIRED = ("firing", "TooHot")
RESOLVED = ("resolved", "TooHot")

RULES = {
    "groups": [
        {
            "name": "heat",
            "rules": [
                {"record": "job:temperature:max", "expr": "max by (job) (temperature)"},
                {
                    "alert": "TooHot",
                    "expr": "temperature > 10",
                    "for": "1s",
                    "labels": {"verdict": "gpu_fault", "severity": "page"},
                    "annotations": {"summary": "{{ $labels.instance }} is at {{ $value }}"},
                },
            ],
        }
    ]
}


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def engine_url(engine: Engine) -> Iterator[str]:
    with serve(engine.app()) as url:
        yield url


@pytest.fixture
def hook() -> Hook:
    return Hook()


@pytest.fixture
def hook_url(hook: Hook) -> Iterator[str]:
    with serve(hook.app()) as url:
        yield f"{url}/hook"


@pytest.fixture
def settings(tmp_path: Path, engine_url: str, hook_url: str) -> dict[str, Any]:
    """The configuration as a tree, for tests to change before they write it."""
    return settings_in(tmp_path, engine_url, hook_url)


def settings_in(folder: Path, engine_url: str, hook_url: str) -> dict[str, Any]:
    (folder / "rules.yml").write_text(yaml.safe_dump(RULES))
    return {
        "global": {"scrape_interval": "500ms", "evaluation_interval": "500ms"},
        "scrape_configs": [
            {
                "job_name": "chat",
                "deployment": "chat-prod",
                "static_configs": [{"targets": [engine_url.removeprefix("http://")]}],
            }
        ],
        "rule_files": ["rules.yml"],
        "receivers": [{"name": "hook", "webhook_configs": [{"url": hook_url}]}],
        "route": {"receiver": "hook", "group_wait": "0s", "group_interval": "200ms"},
        "storage": {"path": "state"},
        "web": {"listen": "127.0.0.1:0"},
    }


@pytest.fixture
def write(tmp_path: Path) -> Write:
    return lambda tree: write_config(tmp_path / "enginewatch.yml", tree)


@pytest.fixture
def config(settings: dict[str, Any], write: Write) -> Path:
    return write(settings)
