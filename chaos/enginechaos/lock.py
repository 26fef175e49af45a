"""Two runs never share a target: a lock on this machine, and a look at what the last run owes."""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from pathlib import Path
from typing import IO, Final

from enginechaos.errors import Refused
from enginechaos.undo import owes


class TargetLock:
    """Held from `take` to `release`; the kernel lets go of it when the process dies."""

    def __init__(self, identity: str, run_folder: Path, folder: Path | None = None):
        digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
        base = folder or Path(tempfile.gettempdir()) / f"enginechaos-{os.getuid()}"
        self.path: Final = base / f"{digest}.lock"
        self._identity: Final = identity
        self._run: Final = run_folder.absolute()
        self._file: IO[str] | None = None

    def take(self) -> None:
        """Raises Refused when another run holds it, or the last one has left something undone."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = self.path.open("a+", encoding="utf-8")
        except OSError as failure:
            raise Refused(
                f"the target's lock can't be opened: {failure.strerror}", where=str(self.path)
            ) from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            holder = file.read().strip()
            file.close()
            raise Refused(
                f"another run is at this target: {holder or 'unknown'}",
                where=self._identity,
                hint="wait until it has ended",
            ) from None
        self._file = file
        file.seek(0)
        last = file.read().strip()
        if last and Path(last) != self._run and owes(Path(last)):
            self.release()
            raise Refused(
                "the last run at this target has left something undone",
                where=self._identity,
                hint=f"enginechaos undo {last}",
            )
        file.truncate(0)
        file.write(f"{self._run}\n")
        file.flush()

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
