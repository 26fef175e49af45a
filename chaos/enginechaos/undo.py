"""The undo files of a run: what must be done to take its faults back, on disk before they exist.

JSON lines, only ever appended to and synced: one `{"id", "kind", ...}` an action, and one
`{"done": id, "said"}` when it was done. What has no `done` is owed. Replaying is idempotent,
so a crash between the deed and its `done` is no harm. Each process of a run has a file of its
own, `undo.jsonl` or `undo-NAME.jsonl`, in the run's folder.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from enginechaos.actions import Action, action_of
from enginechaos.errors import ChaosError, UndoError

_FILES: Final = "undo*.jsonl"


@dataclass(frozen=True)
class Owed:
    """An action that was promised and not done yet. `fault` says what it takes back."""

    id: int
    fault: str
    action: Action


class UndoLog:
    """One undo file. Safe to use from several threads."""

    def __init__(self, path: Path):
        self.path: Final = path
        self._lock: Final = threading.RLock()
        self._owed: dict[int, Owed] = {}
        self._next = 1

    @classmethod
    def read(cls, path: Path) -> UndoLog:
        """As a run, perhaps one that crashed, left it. Raises UndoError."""
        log = cls(path)
        for number, line in _lines(log.path):
            log._take(line, f"{log.path}:{number}")
        return log

    @property
    def owed(self) -> list[Owed]:
        """What is still to be done, the last promised first."""
        with self._lock:
            return [self._owed[key] for key in sorted(self._owed, reverse=True)]

    def promise(self, fault: str, actions: Sequence[Action]) -> list[Owed]:
        """Write `actions` to disk and sync them. Raises UndoError, and then nothing is promised."""
        with self._lock:
            new = [Owed(self._next + n, fault, each) for n, each in enumerate(actions)]
            text = "".join(_line(_promised(owed)) for owed in new)
            try:
                self._append(text)
            except OSError as failure:
                raise UndoError(
                    f"the undo can't be written, so nothing is injected: {failure.strerror}",
                    where=str(self.path),
                    hint="free some space, or choose another --journal",
                ) from None
            self._next += len(new)
            self._owed |= {owed.id: owed for owed in new}
            return new

    def settle(self, some: Sequence[Owed] | None = None) -> Iterator[tuple[Owed, str]]:
        """Do what is owed, or `some` of it, the last promised first, and say what was done.

        One that fails does not keep the others from being done. Raises UndoError at the end.
        """
        failures: list[str] = []
        with self._lock:
            wanted = None if some is None else {owed.id for owed in some}
            for owed in self.owed:
                if wanted is not None and owed.id not in wanted:
                    continue
                try:
                    said = owed.action.do()
                except ChaosError as failure:
                    failures.append(f"{owed.fault}: {failure}")
                    continue
                self._done(owed, said)
                yield owed, said
        if failures:
            raise UndoError(
                "not undone: " + "; ".join(failures),
                where=str(self.path),
                hint=f"when the reason is gone: enginechaos undo {self.path.parent}",
            )

    def _done(self, owed: Owed, said: str) -> None:
        del self._owed[owed.id]
        try:
            self._append(_line({"done": owed.id, "said": said, "at": time.time()}))
        except OSError:
            return  # done all the same; a replay finds it done already

    def _append(self, text: str) -> None:
        fresh = not self.path.exists()
        size = 0 if fresh else _whole(self.path)
        with self.path.open("a", encoding="utf-8") as file:
            try:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                os.truncate(self.path, size)
                raise
        if fresh:
            _sync(self.path.parent)

    def _take(self, line: dict[str, Any], where: str) -> None:
        if "done" in line:
            self._owed.pop(int(line["done"]), None)
            return
        try:
            owed = Owed(int(line["id"]), str(line["fault"]), action_of(line))
        except KeyError as missing:
            raise UndoError(f"a line without its {missing}", where=where) from None
        except ChaosError as failure:
            raise UndoError(failure.what, where=where, hint=failure.hint) from None
        self._owed[owed.id] = owed
        self._next = max(self._next, owed.id + 1)


def file_name(worker: str = "") -> str:
    """Of a process of a run; workers that run tests side by side have names."""
    return f"undo-{worker}.jsonl" if worker else "undo.jsonl"


def owes(folder: Path) -> bool:
    """Whether a run's folder still has something to undo, or an undo file that can't be read."""
    try:
        return any(UndoLog.read(path).owed for path in folder.glob(_FILES))
    except UndoError:
        return True


def settle_all(folder: Path) -> list[str]:
    """Do all that a run still owes, and say what was done. Raises UndoError at the end."""
    said: list[str] = []
    failures: list[UndoError] = []
    for path in sorted(folder.glob(_FILES)):
        try:
            for owed, deed in UndoLog.read(path).settle():
                said.append(f"{owed.fault}: {deed}")
        except UndoError as failure:
            failures.append(failure)
    if failures:
        first = failures[0]
        raise UndoError("; ".join(f.what for f in failures), where=first.where, hint=first.hint)
    return said


def _promised(owed: Owed) -> dict[str, Any]:
    kind = owed.action.kind
    return {
        "id": owed.id,
        "kind": kind,
        "fault": owed.fault,
        "at": time.time(),
        **owed.action.as_json(),
    }


def _line(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=True) + "\n"


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return
    except OSError as failure:
        raise UndoError(f"can't be read: {failure.strerror}", where=str(path)) from None
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if not line.endswith("\n"):
            return  # cut off by a crash while it was written: nothing was injected for it
        try:
            found = json.loads(line)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise UndoError("not a line of JSON", where=f"{path}:{number}")
        yield number, found


def _whole(path: Path) -> int:
    """Cut off what a crash left of a last line; the length in bytes after that."""
    text = path.read_bytes()
    length = text.rfind(b"\n") + 1
    if length < len(text):
        os.truncate(path, length)
    return length


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
