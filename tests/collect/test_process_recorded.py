"""The recorded process table of real vLLM with two workers, judged by the shipped rules.

SIGSTOP of one worker: the engine itself takes 300 s, and its page shows nothing at all
when it was idle.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from enginewatch.alerting.events import AlertChange, ChangeKind
from enginewatch.alerting.rules import load_rule_files
from enginewatch.collect.process_identity import identify, known_patterns
from enginewatch.collect.process_table import Stat, parse_stat
from enginewatch.collect.process_track import Defaults, Seen, Tracks, follow, samples
from enginewatch.model import Labels, Millis
from enginewatch.recording import NoteEvent, SamplesEvent, read_recording
from enginewatch.replay import Replay, target_labels
from enginewatch.rulepack import rule_files, rules_path

DATA = Path(__file__).parent.parent / "data"
LABELS = Labels(instance="127.0.0.1:8000", job="vllm", runtime="vllm", deployment="demo-llama")
TARGET = target_labels(LABELS)
DEFAULTS = Defaults("node1", "rest")
PATTERNS = known_patterns(rules_path())


def looks(name: str) -> Iterator[tuple[Millis, list[Seen]]]:
    with lzma.open(DATA / f"{name}.procs.jsonl.xz", "rt") as file:
        for line in file:
            row = json.loads(line)
            yield round(row["t"] * 1000), list(filter(None, map(seen, row["procs"])))


def seen(process: dict[str, Any]) -> Seen | None:
    identity = identify(process["title"], PATTERNS)
    if identity is None:
        return None
    state = parse_stat(f"1 (x) {process['state']} " + "0 " * 30).state
    stat = Stat(
        process["pid"], process["ppid"], "x", state, process["cpu"], process["pid"], process["rss"]
    )
    return Seen(stat, identity, TARGET, adopted=False, started=0.0)


def rounds(name: str) -> Iterator[SamplesEvent]:
    """What the collector would have written, as a recording holds it."""
    tracks = Tracks()
    for at, found in looks(name):
        tracks = follow(tracks, found, at, DEFAULTS)
        page = "\n".join(f"{each.labels!r} {each.value}" for each in samples(tracks, found, at))
        yield SamplesEvent(LABELS, at, "processes", f"{page}\n".encode())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vllm-tp-stall", "vllm-tp-stall-idle"])
def test_a_stopped_worker_pages_within_fifteen_seconds(name: str) -> None:
    scraped = list(read_recording(DATA / f"{name}.prom.xz"))
    (stop,) = (
        each.at for each in scraped if isinstance(each, NoteEvent) and "SIGSTOP" in each.text
    )
    until = stop + 70_000
    events = sorted([*scraped, *rounds(name)], key=lambda event: event.at)
    replay = Replay(load_rule_files(rule_files()))
    pages = [
        (told.alert.name, told.alert.labels.get("rank"), told.at)
        for told in replay.run(event for event in events if event.at <= until)
        if isinstance(told, AlertChange) and told.kind is ChangeKind.FIRING
        if told.alert.labels["severity"] == "page"
    ]
    name, rank, at = pages[0]
    assert (name, rank) == ("EngineRankStopped", "TP1")
    assert 0 < at - stop <= 15_000
    assert {name for name, _, _ in pages} <= {"EngineRankStopped", "EngineStuck"}
