"""The command line: what it prints, its exit codes, and that no mistake shows a traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.cli import Run, console_script

DATA = Path(__file__).parent / "data"
FLOOD = DATA / "vllm-prefill-flood.prom.xz"


@pytest.fixture
def enginewatch(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return console_script(monkeypatch, capsys)


def test_as_a_process_a_mistake_is_one_line_on_stderr(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "enginewatch", "run", "-c", "absent.yml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("error: absent.yml: ")


GOOD_RULES = """\
groups:
  - name: g
    rules:
      - record: job:up:sum
        expr: sum by (job) (up)
      - alert: Down
        expr: job:up:sum == 0
        labels: {verdict: engine_dead, severity: page}
"""
BAD_RULES = """\
groups:
  - name: g
    rules:
      - alert: Down
        expr: rate(up) > 0
      - alert: Up
        expression: up
"""
RULE_TEST = """\
rule_files: [rules.yml]
tests:
  - interval: 1m
    input_series:
      - series: 'up{job="a"}'
        values: '0 0 0'
    alert_rule_test:
      - eval_time: 2m
        alertname: Down
        exp_alerts:
          - exp_labels: {job: JOB, verdict: engine_dead, severity: page}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {
        "rules.yml": GOOD_RULES,
        "bad.yml": BAD_RULES,
        "good.test.yml": RULE_TEST.replace("JOB", "a"),
        "failing.test.yml": RULE_TEST.replace("JOB", "b"),
        "binary.prom": "\x00\x01",
        "page.prom": "# SCRAPE t=0\nup{ 1\n# SCRAPE t=5\nup 1\n",
        "unknown.yml": "scrape_config: []\n",
        "list.yml": "- a\n",
        "rule.yml": "rule_files: [absent.yml]\n",
        "badrule.yml": "rule_files: [bad.yml]\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run"], "nothing to watch"),
        (["run", "ftp://host"], "ftp://host"),
        (["run", "http://user:s3cret@host:8000"], "credentials"),
        (["run", "http://host:8000", "-c", "x.yml"], "not both"),
        (["run", "-c", "absent.yml"], "absent.yml"),
        (["run", "-c", "unknown.yml"], "scrape_configs"),
        (["run", "-c", "list.yml"], "list.yml"),
        (["check-config", "-c", "rule.yml"], "absent.yml"),
        (["check-config", "-c", "badrule.yml"], "bad.yml:5:"),
        (["run", "http://127.0.0.1:9", "--listen", "nowhere"], "host:port"),
        (["rules", "check", "absent.yml"], "absent.yml"),
        (["rules", "check", "bad.yml"], "bad.yml:5:"),
        (["rules", "check", "binary.prom"], "binary.prom"),
        (["rules", "test", "absent.test.yml"], "absent.test.yml"),
        (["rules", "test", "."], "failing.test.yml"),
        (["rules", "explain", "EngineStuk"], "EngineStuck"),
        (["replay", "absent.prom"], "absent.prom"),
        (["replay", "binary.prom"], "binary.prom"),
        (["replay", "rules.yml"], "rules.yml"),
        (["replay", "page.prom", "--interval", "soon"], "--interval"),
        (["replay", "page.prom", "--speed", "0"], "--speed"),
        (["record", "http://127.0.0.1:9", "-o", "rules.yml"], "exists"),
        (["record", "http://127.0.0.1:9", "-o", "absent/x.prom"], "absent/x.prom"),
    ],
)
def test_a_mistake_is_one_clear_error_and_exit_code_2(
    enginewatch: Run, folder: Path, arguments: list[str], said: str
) -> None:
    done = enginewatch(*arguments, cwd=folder)
    expected = 1 if arguments == ["rules", "test", "."] else 2
    assert done.returncode == expected, done.stderr
    assert said in done.stderr + (done.stdout if expected == 1 else "")
    assert "Traceback" not in done.stderr
    assert "s3cret" not in done.stderr + done.stdout


def test_every_error_of_a_rule_file_is_told_at_once(enginewatch: Run, folder: Path) -> None:
    done = enginewatch("rules", "check", "bad.yml", cwd=folder)
    assert "bad.yml:5:" in done.stderr
    assert "bad.yml:7:" in done.stderr
    assert "expr" in done.stderr


def test_rules_are_checked_tested_and_explained(enginewatch: Run, folder: Path) -> None:
    assert "1 alert" in enginewatch("rules", "check", "rules.yml", cwd=folder).stdout
    passed = enginewatch("rules", "test", "good.test.yml", cwd=folder)
    assert (passed.returncode, passed.stdout.split()[0]) == (0, "ok")
    failed = enginewatch("rules", "test", "failing.test.yml", cwd=folder)
    assert failed.returncode == 1
    assert "failing.test.yml:8" in failed.stdout
    told = enginewatch("rules", "explain", "Down", "--rules", "rules.yml", cwd=folder).stdout
    assert "job:up:sum" in told
    assert "rules.yml:4" in told


def test_the_shipped_pack_is_found_and_correct(enginewatch: Run) -> None:
    path = Path(enginewatch("rules", "path").stdout.strip())
    assert (path / "hazards").is_dir()
    assert enginewatch("rules", "check").returncode == 0
    explained = enginewatch("rules", "explain", "EnginePrefillStarvation").stdout
    assert "vllm:inter_token_latency_seconds_sum" in explained
    assert "runbook: " in explained


def test_replay_tells_when_alerts_would_have_fired(enginewatch: Run) -> None:
    done = enginewatch("replay", str(FLOOD), "--json")
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    changes = [(t["change"], t["alert"]) for t in told if t.get("change") in ("firing", "resolved")]
    assert changes == [
        ("firing", "EnginePrefillStarvation"),
        ("resolved", "EnginePrefillStarvation"),
    ]
    assert any("flood begins" in t.get("note", "") for t in told)


def test_a_page_that_cannot_be_read_is_a_failed_scrape_not_the_end(
    enginewatch: Run, folder: Path
) -> None:
    done = enginewatch("replay", "page.prom", "--rules", "rules.yml", cwd=folder)
    assert done.returncode == 0, done.stderr


def test_version_and_help(enginewatch: Run) -> None:
    assert enginewatch("--version").stdout.startswith("enginewatch ")
    told = enginewatch("--help").stdout
    for command in ("run", "check-config", "rules", "record", "replay"):
        assert command in told
