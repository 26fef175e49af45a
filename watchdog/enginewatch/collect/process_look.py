"""A look at the process table: which processes are engines', and what they are.

Blocking, and may hang on the memory of a process that hangs itself: it is made in a
thread that can be abandoned, and its successor keeps away from where it got stuck.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from enginewatch.collect.process_identity import Identity, Pattern, identify, owner, port_of
from enginewatch.collect.process_table import (
    Stat,
    State,
    boot_time,
    pids,
    read_command,
    read_rank,
    read_stat,
    start_time,
)
from enginewatch.collect.process_track import INITS, Key, Seen
from enginewatch.model import Labels

Read = Callable[[int], str]

_YOUNG: Final = 300.0
"""Seconds in which a process that is no engine's yet may still give itself a title."""
_KERNEL: Final = 2
"""The parent of all kernel threads."""
_DEEPEST: Final = 12


@dataclass(frozen=True, slots=True)
class _Known:
    """What was found out of a process; `parent` is the one it was first seen with."""

    comm: str
    identity: Identity | None
    parent: int
    target: Labels | None = None


class Looker:
    """Remembers from look to look what processes are, which is costly to find out.

    One look at a time; `successor` gives another to go on with when one hangs.
    """

    def __init__(self, patterns: Sequence[Pattern]):
        self._patterns: Final = patterns
        self._boot: Final = boot_time()
        self._known: dict[Key, _Known] = {}
        self._commands: dict[Key, str] = {}
        self._avoided: set[Key] = set()
        self._reading: Key | None = None

    @property
    def avoided(self) -> int:
        """How many processes a look got stuck with, which are there still."""
        return len(self._avoided)

    def successor(self) -> Looker:
        """One that knows the same, and does not touch the process this one is stuck with."""
        other = Looker(self._patterns)
        other._known, other._commands = dict(self._known), dict(self._commands)
        other._avoided = self._avoided | ({self._reading} if self._reading else set())
        return other

    def scan(self, targets: Mapping[int, Labels]) -> list[Seen]:
        """All processes; `targets` are the scraped ones of this machine, by port."""
        table = {stat.pid: stat for pid in pids() if (stat := read_stat(pid)) is not None}
        for stat in table.values():
            if _KERNEL not in (stat.pid, stat.ppid):
                self._known[stat.key] = self._find_out(stat)
        live = {stat.key for stat in table.values()}
        self._known = {key: known for key, known in self._known.items() if key in live}
        self._commands = {key: text for key, text in self._commands.items() if key in live}
        self._avoided &= live
        for key, known in self._known.items():
            if known.identity is not None:
                self._known[key] = replace(known, target=self._target(key, table, targets))
        return [seen for stat in table.values() for seen in self._seen(stat, table.get(stat.ppid))]

    def refresh(self) -> list[Seen]:
        """The processes that the last scan found to be engines', as they are now."""
        found: list[Seen] = []
        for (pid, start), known in self._known.items():
            if known.identity is not None:
                stat = read_stat(pid)
                if stat is not None and stat.start == start:
                    found.extend(self._seen(stat, read_stat(stat.ppid)))
        return found

    def _seen(self, stat: Stat, parent: Stat | None) -> Iterator[Seen]:
        known = self._known.get(stat.key)
        if known is not None and known.identity is not None:
            adopted = parent is not None and parent.comm in INITS
            started = start_time(stat, self._boot)
            yield Seen(stat, known.identity, known.target, adopted, started)

    def _find_out(self, stat: Stat) -> _Known:
        known = self._known.get(stat.key)
        if known is not None and known.comm == stat.comm:
            young = time.time() - start_time(stat, self._boot) < _YOUNG
            if known.identity is not None or not young:
                return known
        if not self._readable(stat):
            return known or _Known(stat.comm, None, stat.ppid)
        self._commands.pop(stat.key, None)
        identity = identify(self._command(stat), self._patterns)
        if identity is not None and identity.role == "worker" and not identity.rank:
            identity = identity._replace(rank=self._guarded(stat, read_rank))
        if known is None:
            return _Known(stat.comm, identity, stat.ppid)
        return replace(known, comm=stat.comm, identity=identity)

    def _target(
        self, key: Key, table: Mapping[int, Stat], targets: Mapping[int, Labels]
    ) -> Labels | None:
        known, stat = self._known[key], table[key[0]]
        if known.identity is None:
            return None
        commands = [self._command(each) for each in _ancestry(stat, table)]
        # An orphan has lost the parent that told its port, and stays whose it was, if anybody's:
        # the only target that is left of its runtime may be another engine.
        if stat.ppid != known.parent and port_of(commands) is None:
            return known.target
        return owner(known.identity, commands, targets)

    def _command(self, stat: Stat) -> str:
        if stat.key not in self._commands:
            if not self._readable(stat):
                return ""
            self._commands[stat.key] = self._guarded(stat, read_command)
        return self._commands[stat.key]

    def _readable(self, stat: Stat) -> bool:
        """Whether the memory of the process may be looked at."""
        hidden = stat.state in (State.DISK_SLEEP, State.ZOMBIE)
        return not hidden and stat.key not in self._avoided

    def _guarded(self, stat: Stat, read: Read) -> str:
        self._reading = stat.key
        try:
            return read(stat.pid)
        finally:
            self._reading = None


def _ancestry(stat: Stat, table: Mapping[int, Stat]) -> Iterator[Stat]:
    """The process, its parent, and so on up."""
    for _ in range(_DEEPEST):
        yield stat
        parent = table.get(stat.ppid)
        if parent is None or parent.pid == stat.pid:
            return
        stat = parent
