"""What the canary has learnt of each engine, in a file: a restart goes on where it was.

A file of its own: the daemon's state file is one writer's alone.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from enginewatch.statefile import StateError, StateFile

_log = logging.getLogger(__name__)

FILE: Final = "canary.db"
PART: Final = "canary"
MIGRATIONS: Final = (
    """
    CREATE TABLE canary (
        engine TEXT PRIMARY KEY,
        fingerprint TEXT NOT NULL,
        state TEXT NOT NULL
    ) WITHOUT ROWID
    """,
)


class CanaryState:
    """Evidence by engine. `fingerprint` is of all that must be the same for it to go on counting:
    the baseline, the decision, what is accepted. Used by one thread at a time; never raises."""

    def __init__(self, folder: Path):
        self._file: Final = StateFile(folder / FILE, {PART: MIGRATIONS})

    def load(self, engine: str, fingerprint: str) -> Mapping[str, Any] | None:
        """What was saved; None where nothing was, or of something else."""
        try:
            with self._file.reading() as db:
                row = db.execute(
                    "SELECT state FROM canary WHERE engine = ? AND fingerprint = ?",
                    (engine, fingerprint),
                ).fetchone()
            found = json.loads(row[0]) if row else None
        except (StateError, ValueError) as failure:
            _log.error("the canary begins anew: %s", failure)
            return None
        return found if isinstance(found, dict) else None

    def save(self, engine: str, fingerprint: str, state: Mapping[str, Any]) -> None:
        try:
            with self._file.transaction() as db:
                db.execute(
                    "INSERT OR REPLACE INTO canary VALUES (?, ?, ?)",
                    (engine, fingerprint, json.dumps(state)),
                )
        except StateError as failure:
            _log.error("what the canary learnt would not survive a restart: %s", failure)

    def close(self) -> None:
        self._file.close()
