"""What an undo can consist of: a small closed vocabulary, each of which may be done twice.

An action is written to disk before the fault that it takes back, and may be done by another
process, after a crash, more than once, and although the fault never came about. So each says
what it found, and "already so" is a success.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from enginechaos.actors import Actor, Local, actor_of
from enginechaos.errors import UndoError
from enginechaos.processes import GONE, Process

_WITHIN: Final = 10.0
"""Seconds until a process must have gone on, or be gone."""


class Action:
    """One step of an undo. `do` returns what it did, in words. Raises ChaosError."""

    kind: ClassVar[str]

    def do(self) -> str:
        raise NotImplementedError

    def as_json(self) -> dict[str, Any]:
        raise NotImplementedError

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        raise NotImplementedError


@dataclass(frozen=True)
class Signal(Action):
    """Send a signal to a process if it is still that process."""

    kind = "signal"
    process: Process
    name: str
    actor: Actor = field(default_factory=Local)

    def do(self) -> str:
        deadline = time.monotonic() + _WITHIN
        while self.actor.signal(self.process, self.name):
            if self.name != "CONT" or self.actor.state(self.process) != "T":
                return f"sent {self.name} to {self.process}"
            if time.monotonic() > deadline:
                raise UndoError(f"{self.process} is still stopped after CONT")
            time.sleep(0.05)
        return f"{self.process} is gone already"

    def as_json(self) -> dict[str, Any]:
        return {
            "process": self.process.as_json(),
            "name": self.name,
            "actor": dict(self.actor.spec()),
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        process = Process.from_json(found["process"])
        return cls(process, str(found["name"]), actor_of(found["actor"]))


@dataclass(frozen=True)
class End(Action):
    """End a process that the suite started, and wait until it is gone."""

    kind = "end"
    process: Process
    actor: Actor = field(default_factory=Local)

    def do(self) -> str:
        if self._gone():
            return f"{self.process} had ended already"
        # A stopped process would keep TERM for when it goes on.
        self.actor.signal(self.process, "CONT")
        self.actor.signal(self.process, "TERM")
        for signal in ("TERM", "KILL"):
            self.actor.signal(self.process, signal)
            deadline = time.monotonic() + _WITHIN / 2
            while time.monotonic() < deadline:
                if self._gone():
                    return f"ended {self.process}"
                time.sleep(0.05)
        raise UndoError(f"{self.process} can't be ended")

    def _gone(self) -> bool:
        return self.actor.state(self.process) in GONE

    def as_json(self) -> dict[str, Any]:
        return {"process": self.process.as_json(), "actor": dict(self.actor.spec())}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        return cls(Process.from_json(found["process"]), actor_of(found["actor"]))


@dataclass(frozen=True)
class Restore(Action):
    """Put a file or folder back as it was; `backup` is the copy that `Restore.of` made.

    The copy stays, so that doing this twice is no harm.
    """

    kind = "restore"
    path: Path
    backup: Path

    @classmethod
    def of(cls, path: Path, folder: Path) -> Self:
        """Copy `path` into `folder` and return the action that brings it back."""
        folder.mkdir(parents=True, exist_ok=True)
        backup = folder / f"{len(list(folder.iterdir()))}-{path.name}"
        try:
            _copy(path, backup)
        except OSError as failure:
            reason = failure.strerror or str(failure)
            raise UndoError(f"can't make a copy: {reason}", where=str(path)) from None
        return cls(path.absolute(), backup.absolute())

    def do(self) -> str:
        beside = self.path.with_name(f".{self.path.name}.enginechaos")
        try:
            _copy(self.backup, beside)
            if self.path.is_dir() and not self.path.is_symlink():
                shutil.rmtree(self.path)
            beside.replace(self.path)
        except OSError as failure:
            reason = failure.strerror or str(failure)
            raise UndoError(f"can't restore it: {reason}", where=str(self.path)) from None
        return f"restored {self.path}"

    def as_json(self) -> dict[str, Any]:
        return {"path": str(self.path), "backup": str(self.backup)}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        return cls(Path(found["path"]), Path(found["backup"]))


def _copy(source: Path, to: Path) -> None:
    if source.is_dir():
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(source, to, symlinks=True)
    else:
        shutil.copy2(source, to)


@dataclass(frozen=True)
class Remove(Action):
    """Remove a file that the fault makes."""

    kind = "remove"
    path: Path

    def do(self) -> str:
        try:
            self.path.unlink()
        except FileNotFoundError:
            return f"{self.path} is not there"
        except OSError as failure:
            reason = failure.strerror or str(failure)
            raise UndoError(f"can't remove it: {reason}", where=str(self.path)) from None
        return f"removed {self.path}"

    def as_json(self) -> dict[str, Any]:
        return {"path": str(self.path)}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        return cls(Path(found["path"]))


@dataclass(frozen=True)
class Command(Action):
    """Run a command that may be run twice, such as `tc qdisc del dev veth0 root`.

    `absent` is what it says on its standard error when there is nothing left to undo.
    """

    kind = "command"
    argv: tuple[str, ...]
    absent: str = ""
    actor: Actor = field(default_factory=Local)

    def do(self) -> str:
        done = self.actor.run(self.argv)
        words = " ".join(self.argv)
        if done.code == 0:
            return f"ran {words}"
        if self.absent and self.absent in done.errors:
            return f"nothing left for {words}"
        raise UndoError(f"exit code {done.code}: {done.errors.strip()[:300]}", where=words)

    def as_json(self) -> dict[str, Any]:
        spec = dict(self.actor.spec())
        return {"argv": list(self.argv), "absent": self.absent, "actor": spec}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        return cls(tuple(found["argv"]), str(found.get("absent", "")), actor_of(found["actor"]))


@dataclass(frozen=True)
class EndsWithRun(Action):
    """For what lives in the suite's own process, such as a flood of requests: it ends with it."""

    kind = "ends-with-run"
    what: str

    def do(self) -> str:
        return f"{self.what} ended with the run"

    def as_json(self) -> dict[str, Any]:
        return {"what": self.what}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        return cls(str(found["what"]))


KINDS: Final[Mapping[str, type[Action]]] = {
    each.kind: each for each in (Signal, End, Restore, Remove, Command, EndsWithRun)
}


def action_of(found: Mapping[str, Any]) -> Action:
    """The action that a line of an undo file holds. Raises UndoError."""
    kind = KINDS.get(str(found.get("kind")))
    if kind is None:
        raise UndoError(
            f"no action is called {found.get('kind')!r}",
            hint=f"known: {', '.join(KINDS)}; was it written by a newer version?",
        )
    try:
        return kind.from_json(found)
    except (KeyError, TypeError, ValueError) as failure:
        raise UndoError(f"a {kind.kind} without its {failure}") from None
