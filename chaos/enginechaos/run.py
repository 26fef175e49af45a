"""A run of the suite: its folder, its undo file, its journal, and what all its tests share."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from enginechaos import junit, report
from enginechaos.budgets import Budgets, shipped
from enginechaos.errors import ChaosError
from enginechaos.interrupts import uninterrupted
from enginechaos.journal import Journal
from enginechaos.staging import StagingFile
from enginechaos.undo import UndoLog, file_name, settle_all

DEFAULT_FOLDER: Final = Path(".enginechaos")
"""Where runs are kept, below the folder that pytest is started in."""


@dataclass
class Run:
    """`folder` is the run's own. `staging` is the target file, None for the embedded engine."""

    folder: Path
    seed: int = 0
    dry_run: bool = False
    staging: StagingFile | None = None
    command: Sequence[str] = ()
    worker: str = ""
    """The name of this process where several run tests of one run side by side."""
    started: float = field(default_factory=time.time)
    undo: UndoLog = field(init=False)
    journal: Journal = field(init=False)
    versions: dict[str, str] = field(default_factory=dict)
    conditions: dict[str, Any] = field(default_factory=dict)
    """By target: its settings, as far as they are the same in every run."""

    def __post_init__(self) -> None:
        self.undo = UndoLog(self.folder / file_name(self.worker))
        self.journal = Journal(self.folder)
        self.versions |= own_versions()

    @property
    def budgets(self) -> Budgets:
        ours = shipped()
        return ours.over(self.staging.budgets) if self.staging is not None else ours

    @property
    def ends_at(self) -> float:
        """The hard cap of all of it, in Unix seconds."""
        return float("inf") if self.staging is None else self.started + self.staging.run_seconds

    def make_folder(self) -> None:
        """Raises ChaosError when the disk does not take it."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as failure:
            raise ChaosError(
                f"can't be made: {failure.strerror}",
                where=str(self.folder),
                hint="choose another --journal",
            ) from None

    def digest(self, target: str) -> str:
        """SHA-256 of what a test at a target depends on: equal digests are equal conditions."""
        conditions = [self.conditions.get(target), asdict(self.budgets), self.seed]
        text = json.dumps(conditions, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()

    def settle(self) -> None:
        """Undo what this process still owes, at its end. Raises UndoError."""
        with uninterrupted():
            list(self.undo.settle())

    def settle_all(self) -> list[str]:
        """What workers that died have left, too; what was done. Raises UndoError."""
        with uninterrupted():
            return settle_all(self.folder)

    def finish(self) -> Path | None:
        """Write the journal, JUnit and the page; None when no test took part."""
        records = self.journal.records()
        if not records:
            return None
        facts = {
            "run": self.folder.name,
            "started": self.started,
            "finished": time.time(),
            "seed": self.seed,
            "command": list(self.command),
            "versions": {**{k: v for r in records for k, v in r.versions.items()}, **self.versions},
        }
        path = self.journal.finish(facts)
        junit.write(records, self.folder / "junit.xml")
        report.write(facts, records, self.folder / "report.html")
        return path


def new_run_folder(base: Path, now: float) -> Path:
    """A folder of its own for a run that begins now."""
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now))
    return base / f"{stamp}-{os.getpid()}"


def own_versions() -> Mapping[str, str]:
    found = {"python": platform.python_version(), "platform": sys.platform}
    for name in ("enginewatch", "pytest"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found
