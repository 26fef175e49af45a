"""`enginewatch check-config`: who would hear of what, before anything fires."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.cli import Run, console_script

RULES = """
groups:
  - name: g
    rules:
      - {alert: Dead, expr: up == 0, labels: {severity: page, verdict: engine_dead}}
      - {alert: Deaf, expr: "sum by (receiver) (up) > 0", labels: {severity: page}}
      - {alert: Slow, expr: up > 1, labels: {severity: ticket}}
      - {alert: Odd, expr: up > 2, labels: {severity: "{{ $labels.tier }}"}}
"""

CONFIG = """
scrape_configs:
  - {job_name: chat, deployment: chat, static_configs: [{targets: [a:1, b:1]}]}
  - {job_name: batch, deployment: batch, static_configs: [{targets: [c:1]}]}
rule_files: [rules.yml]
receivers:
  - {name: on-call, pagerduty_configs: [{routing_key_env: K}], console_configs: [{}]}
  - {name: am, alertmanager_configs: [{url: "http://am:9093"}]}
  - {name: nobody}
route:
  receiver: nobody
  routes:
    - {matchers: [deployment=chat, severity=page], receiver: on-call, continue: true}
    - {matchers: [deployment=chat], receiver: am, group_by: ["..."]}
"""


@pytest.fixture
def enginewatch(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return console_script(monkeypatch, capsys)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rules.yml").write_text(RULES)
    (tmp_path / "enginewatch.yml").write_text(CONFIG)
    return tmp_path


def test_what_reaches_nobody_is_warned_of(enginewatch: Run, folder: Path) -> None:
    done = enginewatch("check-config", cwd=folder)
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        "warning: 1 page without a deployment would reach nobody: Deaf",
        "warning: 1 page about batch would reach nobody: Dead",
        (
            "warning: links in notifications lead to http://127.0.0.1:9469, which opens on this"
            " machine alone: set web.external_url"
        ),
    ]


def test_it_explains_whom_an_alert_reaches(enginewatch: Run, folder: Path) -> None:
    done = enginewatch("check-config", "--alert", "deployment=chat,severity=page", cwd=folder)
    assert done.stdout.splitlines()[1:] == [
        '{deployment="chat", severity="page"} reaches on-call/console[0], on-call/pagerduty[0]',
        (
            '  by the route {}/{deployment="chat",severity="page"}, grouped by deployment, verdict,'
            " repeated after 4h"
        ),
        '{deployment="chat", severity="page"} reaches am/alertmanager[0]',
        '  by the route {}/{deployment="chat"}, grouped by all labels, repeated after 4h',
    ]
    done = enginewatch("check-config", "--alert", "deployment=batch", cwd=folder)
    assert done.stdout.splitlines()[1:] == ['{deployment="batch"} reaches nobody']


@pytest.mark.parametrize(
    ("given", "said"), [("nonsense", "no matcher"), ('a=~"b"', "is no label (name=value)")]
)
def test_labels_that_are_none(enginewatch: Run, folder: Path, given: str, said: str) -> None:
    done = enginewatch("check-config", "--alert", given, cwd=folder)
    assert done.returncode == 2
    assert said in done.stderr
