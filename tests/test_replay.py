"""Recording a live engine, replaying it, and serving it again: the three see the same."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from tests.support.daemon import Engine, eventually
from tests.support.server import serve

from enginewatch.alerting.events import AlertChange
from enginewatch.alerting.judge import Settings
from enginewatch.alerting.rules import parse_rule_file
from enginewatch.model import Labels
from enginewatch.recording import NoteEvent, ScrapeEvent, read_recording
from enginewatch.replay import Replay, between, target_labels
from enginewatch.web.recorded import Stage

RULES = parse_rule_file(
    """
groups:
  - name: heat
    rules:
      - alert: TooHot
        expr: temperature > 10
        for: 10s
        labels: {verdict: gpu_fault}
""",
    "rules.yml",
)
INSTANCE = Labels(instance="a:1", job="chat", deployment="chat")
START = 1_700_000_000_000


def scrape(seconds: float, page: str | None) -> ScrapeEvent:
    body = None if page is None else page.encode()
    error = "" if page is not None else "connection refused"
    return ScrapeEvent(INSTANCE, START + round(seconds * 1000), body, 0.01, 200, error=error)


def story() -> list[ScrapeEvent]:
    """Warm for 20 s, hot for 30 s, warm again, a scrape every 5 s."""
    return [scrape(t, f"temperature {42 if 20 <= t < 50 else 5}\n") for t in range(0, 80, 5)]


def changes(events: list[ScrapeEvent | NoteEvent]) -> list[tuple[float, str]]:
    told = Replay([RULES], Settings(interval=5_000)).run(events)
    return [((t.at - START) / 1000, t.kind.value) for t in told if isinstance(t, AlertChange)]


def test_the_rules_see_each_tick_after_its_scrapes() -> None:
    assert changes([*story()]) == [(20, "pending"), (30, "firing"), (50, "resolved")]


def test_the_last_scrape_is_judged_too() -> None:
    assert changes([scrape(0, "temperature 42\n"), scrape(10, "temperature 42\n")]) == [
        (0, "pending"),
        (10, "firing"),
    ]


def test_a_target_that_vanishes_leaves_its_alert_firing() -> None:
    gone = [scrape(t, None if t >= 40 else "temperature 42\n") for t in range(0, 80, 5)]
    assert changes([*gone]) == [(0, "pending"), (10, "firing"), (40, "unknown")]


def test_notes_are_told_in_their_place() -> None:
    events = [*story()[:4], NoteEvent(START + 16_000, "the flood begins"), *story()[4:]]
    told = list(Replay([RULES], Settings(interval=5_000)).run(events))
    assert isinstance(told[0], NoteEvent)
    assert isinstance(told[1], AlertChange)


def test_a_part_of_a_recording_is_counted_from_its_first_event() -> None:
    assert [e.at - START for e in between(story(), 10_000, 25_000)] == [10_000, 15_000, 20_000]


@pytest.mark.parametrize(
    ("recorded", "labels"),
    [
        ({}, {"instance": "recording", "job": "recording", "deployment": "recording"}),
        ({"job": "chat"}, {"instance": "recording", "job": "chat", "deployment": "chat"}),
        (
            {"instance": "a:1", "deployment": "d", "runtime": "vllm"},
            {"instance": "a:1", "job": "recording", "deployment": "d", "runtime": "vllm"},
        ),
    ],
)
def test_every_recorded_target_has_the_labels_rules_ask_for(
    recorded: dict[str, str], labels: dict[str, str]
) -> None:
    assert target_labels(Labels(recorded)) == Labels(labels)


@pytest.mark.parametrize(
    ("seconds", "temperature"), [(0, 5), (19.9, 5), (20, 42), (49, 42), (50, 5), (1000, 5)]
)
def test_a_stage_shows_the_page_of_its_moment(seconds: float, temperature: int) -> None:
    stage = Stage(story(), lambda: round(seconds * 1000))
    with serve(stage.app()) as url, urlopen(f"{url}/metrics", timeout=10) as answer:
        assert answer.read().decode() == f"temperature {temperature}\n"
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")


def test_a_failed_scrape_is_staged_as_a_failure_and_each_target_has_a_path() -> None:
    other = ScrapeEvent(Labels(instance="b:1"), START, None, error="connection refused")
    stage = Stage([scrape(0, "up 1\n"), other], lambda: 0)
    assert list(stage.paths()) == ["/metrics", "/1/metrics"]
    with serve(stage.app()) as url, pytest.raises(OSError, match="503"):
        urlopen(f"{url}/1/metrics", timeout=10)


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[tuple[Engine, subprocess.Popen[bytes], Path]]:
    engine, file = Engine("temperature 5\n"), tmp_path / "engine.prom.gz"
    with serve(engine.app()) as url:
        command = [sys.executable, "-m", "enginewatch", "record", url, "-o", str(file)]
        process = subprocess.Popen([*command, "--interval", "1s"])
        try:
            yield engine, process, file
        finally:
            process.kill()
            process.wait()


@pytest.mark.integration
def test_recording_a_live_engine_until_interrupted(
    recorder: tuple[Engine, subprocess.Popen[bytes], Path],
) -> None:
    engine, process, file = recorder
    part = file.with_name(f"{file.name}.part")

    def pages() -> list[ScrapeEvent]:
        found = read_recording(part, tolerant=True) if part.exists() else ()
        return [event for event in found if isinstance(event, ScrapeEvent)]

    eventually(lambda: len(pages()) >= 2, "two scrapes in the file")
    engine.page = "temperature 42\n"
    eventually(lambda: any(b"42" in (e.body or b"") for e in pages()), "the page as it changed")
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0
    whole = [e for e in read_recording(file) if isinstance(e, ScrapeEvent) and e.body is not None]
    assert whole[0].page == "temperature 5\n"
    assert whole[-1].page == "temperature 42\n"
    assert abs(whole[-1].at / 1000 - time.time()) < 60
