"""Recorded stops of a real engine, with what a probe would have said beside the pages: the page
comes within 15 s of the stop, where the engine itself takes 300 s, and for nothing else."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator, Sequence
from heapq import merge
from pathlib import Path
from typing import Any

import pytest

from enginewatch.alerting.events import AlertChange, ChangeKind
from enginewatch.alerting.rules import RuleFile, load_rule_files
from enginewatch.collect.ingest import Ingest
from enginewatch.collect.probe_dialect import Result
from enginewatch.collect.probe_progress import Progress
from enginewatch.collect.probe_schedule import Ended, Standing
from enginewatch.exposition import PageReader
from enginewatch.model import METRIC_NAME, Labels, Millis
from enginewatch.recording import (
    Event,
    NoteEvent,
    RecordingWriter,
    SamplesEvent,
    ScrapeEvent,
    read_recording,
)
from enginewatch.replay import Replay
from enginewatch.rulepack import rule_files
from enginewatch.store.head import Head

DATA = Path(__file__).parent / "data"
TARGET = Labels(instance="127.0.0.1:8000", job="vllm", runtime="vllm", deployment="demo-llama")
KEY = (TARGET["instance"], TARGET["job"])
DEADLINE = 5.0

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pack() -> Sequence[RuleFile]:
    return load_rule_files(rule_files())


def probe_lines(name: str) -> list[dict[str, Any]]:
    with lzma.open(DATA / f"vllm-{name}.probe.jsonl.xz", "rt") as lines:
        return [json.loads(line) for line in lines]


def told(name: str, pack: Sequence[RuleFile]) -> Iterator[SamplesEvent]:
    """What a prober that sees these pages and sends those probes writes, a round a second.

    The recorded probes overlap; ours never do, so those sent while one is out are left out.
    """
    ends: list[tuple[Millis, Millis, Ended]] = []
    free: Millis = 0
    for line in probe_lines(name):
        sent = round(line["t"] * 1000)
        if "latency" not in line or sent < free:
            continue
        result, took = Result.ANSWERED, line["latency"]
        if line["error"] is not None:
            late = line["error"] == "timeout"
            result = Result.DEADLINE if late else Result.UNREACHABLE
            took = DEADLINE if late else 0.0
        free = sent + round(took * 1000)
        ends.append((sent, free, Ended(result, took, line["status"] or 0)))
    head = Head()
    progress = Progress(lambda: pack, head)
    ingest = Ingest(TARGET, head.source("page"), PageReader())
    pages = [e for e in read_recording(DATA / f"vllm-{name}.prom.xz") if isinstance(e, ScrapeEvent)]
    standing = Standing()
    for now in range(pages[0].at, pages[-1].at, 1000):
        while pages and pages[0].at <= now:
            ingest.take(pages.pop(0))
        seen = progress.look(now).get(KEY)
        while ends and (ends[0][0] if not standing.flying else ends[0][1]) <= now:
            if standing.flying:
                standing = standing.after_end(ends.pop(0)[2])
            else:
                standing = standing.after_send(ends[0][0])
        samples = standing.samples(Labels(), now, seen and seen.age)
        body = "".join(f"{s.labels[METRIC_NAME]} {s.value}\n" for s in samples)
        yield SamplesEvent(TARGET, now, "probe", body.encode())


def pages_after(events: Sequence[Event], pack: Sequence[RuleFile]) -> list[tuple[str, float]]:
    """The alerts that page, and how many seconds after the stop."""
    (stop,) = [e.at for e in events if isinstance(e, NoteEvent) and "SIGSTOP" in e.text]
    return [
        (change.alert.labels["verdict"], (change.at - stop) / 1000)
        for change in Replay(pack).run(events)
        if isinstance(change, AlertChange)
        and change.kind is ChangeKind.FIRING
        and change.alert.labels["severity"] == "page"
    ]


@pytest.mark.parametrize("name", ["tp-stall", "tp-stall-idle"])
def test_a_stopped_worker_pages_within_15_seconds(
    name: str, pack: Sequence[RuleFile], tmp_path: Path
) -> None:
    recorded = list(read_recording(DATA / f"vllm-{name}.prom.xz"))
    with RecordingWriter(tmp_path / "both.prom") as writer:
        for event in merge(recorded, told(name, pack), key=lambda event: event.at):
            match event:
                case NoteEvent():
                    writer.note(event.at, event.text)
                case SamplesEvent():
                    writer.samples(event)
                case ScrapeEvent():
                    writer.scrape(event)
    (verdict, after), *others = pages_after(list(read_recording(tmp_path / "both.prom")), pack)
    print(f"{name}: a page {after} s after the stop")
    assert verdict == "stuck_engine"
    assert 5 < after <= 15
    assert not others, "one incident, one page"
