"""The journal of a run: what was done, what was seen when, and what it came to. JSON.

`tests/NAME.json` is written when a test ends, by whichever process ran it, so a crash loses one
test at most; `journal.json` holds all of them. Its schema, version 1 (times are Unix seconds):

    {"schema": 1, "run": text, "started": time, "finished": time, "seed": number,
     "command": [text], "versions": {name: text},
     "tests": [TEST]}

    TEST = {"id": pytest's node id, "hazard": verdict, "tier": sim|vllm-cpu|gpu|staging,
      "certifies": text, "certifies_not": text, "target": text, "config_digest": sha256 in hex,
      "outcome": passed|failed|inconclusive|error|skipped, "reason": text,
      "versions": {name: text},
      "started": time, "finished": time, "incidents": [INCIDENT]}

    INCIDENT = {"fault": text, "verdict": text, "evidence": text,
      "events": [{"at": time, "what": WHAT, "note": text}],
      "figures": {"detect"|"deliver"|"resolve": seconds},
      "budget": {"detect"|"deliver"|"resolve": seconds, "before": text, "answers": number},
      "signal": {"name": text, "points": [[time, value]]},
      "deliveries": [{"at", "receiver", "key", "status", "verdict", "deployment", "severity",
                      "headline"}]}

    WHAT = steady | undo_written | injected | verified | pending | firing | delivered | undone |
           resolved | resolve_delivered | steady_again | aborted | note
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from enginechaos.errors import ChaosError

SCHEMA: Final = 1
NAME: Final = "journal.json"
OUTCOMES: Final = ("passed", "failed", "inconclusive", "error", "skipped")


@dataclass
class Event:
    at: float
    what: str
    note: str = ""


@dataclass
class Incident:
    """One fault, from steady state to steady state."""

    fault: str
    verdict: str = ""
    evidence: str = ""
    events: list[Event] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)
    budget: dict[str, Any] = field(default_factory=dict)
    signal: dict[str, Any] = field(default_factory=dict)
    deliveries: list[dict[str, Any]] = field(default_factory=list)

    def tell(self, what: str, note: str = "", at: float | None = None) -> float:
        when = time.time() if at is None else at
        self.events.append(Event(when, what, note))
        return when


@dataclass
class Record:
    """One test. What it is about is filled in by the plugin, its incidents by what it does."""

    id: str
    hazard: str = ""
    tier: str = ""
    certifies: str = ""
    certifies_not: str = ""
    target: str = ""
    config_digest: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    outcome: str = ""
    reason: str = ""
    started: float = 0.0
    finished: float = 0.0
    incidents: list[Incident] = field(default_factory=list)

    @property
    def measured(self) -> Incident | None:
        """The incident whose figures stand for the test: a control may go before it."""
        return next((each for each in self.incidents if each.figures), None)


@dataclass(frozen=True)
class Journal:
    """A run's folder as a journal. Raises ChaosError where the disk does not take it."""

    folder: Path

    def keep(self, record: Record) -> None:
        tests = self.folder / "tests"
        _write(tests / f"{_slug(record.id)}.json", asdict(record))

    def records(self) -> list[Record]:
        """All that were kept so far, in the order in which they began."""
        found = [_record(_read(path)) for path in (self.folder / "tests").glob("*.json")]
        return sorted(found, key=lambda record: record.started)

    def finish(self, facts: Mapping[str, Any]) -> Path:
        """Write `journal.json`: the run's `facts` and all its tests."""
        path = self.folder / NAME
        tests = [asdict(record) for record in self.records()]
        _write(path, {"schema": SCHEMA, **facts, "tests": tests})
        return path


@dataclass(frozen=True)
class Run:
    """A journal that was read: its facts, and its tests."""

    facts: Mapping[str, Any]
    records: tuple[Record, ...]


def read(path: Path) -> Run:
    """A journal, by its file or its folder. Raises ChaosError."""
    file = path / NAME if path.is_dir() else path
    found = _read(file)
    if found.get("schema") != SCHEMA:
        raise ChaosError(
            f"schema {found.get('schema')!r} is not {SCHEMA}",
            where=str(file),
            hint="a journal of this version of enginechaos is expected",
        )
    try:
        records = tuple(_record(each) for each in found["tests"])
    except (KeyError, TypeError, AttributeError) as failure:
        raise ChaosError(f"not a journal: {failure}", where=str(file)) from None
    return Run({k: v for k, v in found.items() if k != "tests"}, records)


def _record(found: Mapping[str, Any]) -> Record:
    incidents = [
        Incident(**{**each, "events": [Event(**event) for event in each["events"]]})
        for each in found["incidents"]
    ]
    return Record(**{**found, "incidents": incidents})


def _read(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as failure:
        raise ChaosError(f"can't be read: {failure.strerror}", where=str(file)) from None
    except ValueError as failure:
        raise ChaosError(f"not JSON: {failure}", where=str(file)) from None
    if not isinstance(found, dict):
        raise ChaosError("not a journal", where=str(file))
    return found


def _write(path: Path, value: Mapping[str, Any]) -> None:
    beside = path.with_name(f".{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
        beside.replace(path)
    except OSError as failure:
        raise ChaosError(
            f"the journal can't be written: {failure.strerror}", where=str(path)
        ) from None


def _slug(node: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", node).strip("-")[-150:]
