"""The collector of processes on this very machine: real processes, really stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.support.samples import series_at

from enginewatch.collect.process import ProcessCollector
from enginewatch.collect.process_table import read_command
from enginewatch.collect.scrape import wall_clock
from enginewatch.config import ProcessesConfig
from enginewatch.model import Labels, Target
from enginewatch.store.head import Head

pytestmark = pytest.mark.integration

WITHIN = 30.0
SPIN = "import time\nwhile True: time.sleep(0.01)"
NO_ENGINES = """
about: no engine is known, so that one that runs beside the test is not looked at
key: name
sources: {here: this test}
columns: {name: string, runtime: string, role: string, pattern: string}
rows: [{name: none, runtime: own, role: helper, pattern: '[^\\x00-\\x{10FFFF}]', source: here}]
"""

Story = Callable[[Head, ProcessCollector], None]
Watch = Callable[..., None]


@pytest.fixture
def mark(tmp_path: Path) -> str:
    """A word in the command lines of this test's processes, and no others'."""
    return f"rank-of-{tmp_path.name}-{os.getpid()}"


@pytest.fixture
def ranks(mark: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    started = [
        subprocess.Popen([sys.executable, "-S", "-c", SPIN, f"{mark}={rank}", "--port", "8123"])
        for rank in range(2)
    ]
    yield started
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def watch(mark: str, tmp_path: Path) -> Watch:
    rules = tmp_path / "rules"
    (rules / "compat").mkdir(parents=True)
    (rules / "compat" / "processes.yml").write_text(NO_ENGINES)
    return partial(_watch, rules, mark)


def _watch(rules: Path, mark: str, story: Story, **config: str) -> None:
    head = Head()
    settings = ProcessesConfig.model_validate(
        {
            "interval": "50ms",
            "scan_interval": "200ms",
            "engines": [{"match": f"(?P<title>{mark})=(?P<rank>[0-9]+)", "runtime": "own"}],
            **config,
        }
    )
    target = Target(
        "http://localhost:8123/metrics",
        Labels(job="own", instance="localhost:8123", deployment="chat"),
    )

    async def run() -> None:
        collector = ProcessCollector(settings, head, lambda: [target], wall_clock, rules=rules)
        collector.start()
        try:
            await asyncio.to_thread(story, head, collector)
        finally:
            await collector.stop()

    asyncio.run(run())


def until(head: Head, name: str, wanted: dict[str, float], **labels: str) -> dict[Labels, float]:
    """Wait for the values of a metric by rank."""
    deadline = time.monotonic() + WITHIN
    while True:
        live = series_at(head, name, wall_clock())
        found = {own: v for own, v in live.items() if labels.items() <= dict(own).items()}
        if {own.get("rank", ""): value for own, value in found.items()} == wanted:
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.02)


def test_a_stopped_rank_is_seen_stopped_and_again_at_work(
    watch: Watch, ranks: list[subprocess.Popen[bytes]]
) -> None:
    def story(head: Head, _: ProcessCollector) -> None:
        found = until(head, "enginewatch_process_state", {"0": 0, "1": 0}, state="stopped")
        assert {own["instance"] for own in found} == {"localhost:8123"}
        assert {own["deployment"] for own in found} == {"chat"}
        ranks[1].send_signal(signal.SIGSTOP)
        until(head, "enginewatch_process_state", {"0": 0, "1": 1}, state="stopped")
        time.sleep(0.3)
        still = until_still(head)
        assert still["1"] >= 0.2
        ranks[1].send_signal(signal.SIGCONT)
        until(head, "enginewatch_process_state", {"0": 0, "1": 0}, state="stopped")

    watch(story)


def until_still(head: Head) -> dict[str, float]:
    live = series_at(head, "enginewatch_process_still_seconds", wall_clock())
    return {own["rank"]: value for own, value in live.items()}


def test_a_dead_rank_is_a_zombie_until_somebody_asks_for_it(
    watch: Watch, ranks: list[subprocess.Popen[bytes]]
) -> None:
    def story(head: Head, _: ProcessCollector) -> None:
        until(head, "enginewatch_process_state", {"0": 0, "1": 0}, state="zombie")
        ranks[1].kill()
        until(head, "enginewatch_process_state", {"0": 0, "1": 1}, state="zombie")
        ranks[1].wait()
        until(head, "enginewatch_process_state", {"0": 0}, state="zombie")

    watch(story)


def test_a_look_that_hangs_is_abandoned_and_its_process_left_alone(
    watch: Watch, ranks: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    forever = threading.Event()

    def read(pid: int) -> str:
        if pid == ranks[0].pid:
            forever.wait()
        return read_command(pid)

    monkeypatch.setattr("enginewatch.collect.process_look.read_command", read)

    def story(head: Head, collector: ProcessCollector) -> None:
        until(head, "enginewatch_processes_avoided", {"": 1})
        # The next look passes it over, and sees the other.
        until(head, "enginewatch_process_state", {"1": 0}, state="stopped")
        until(head, "enginewatch_processes_hung", {"": 0})

    try:
        watch(story, timeout="300ms")
    finally:
        forever.set()


def test_a_machine_without_engines_says_so(watch: Watch) -> None:
    def story(head: Head, _: ProcessCollector) -> None:
        until(head, "enginewatch_processes_watched", {"": 0})

    watch(story)
