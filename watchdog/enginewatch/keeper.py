"""Keeps alert states and notifications in the state file, and goes on when that can't be written.

All that is put before a commit begins is written by it in one transaction, so an
alert's state and what is told of it can't disagree after a crash. Transactions
run in a thread of their own; a disk that hangs holds nobody up for longer than
`PATIENCE`. After a failure nothing is believed to be written, and the next
transaction writes all there is.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from enginewatch.alerting import persist
from enginewatch.alerting.snapshot import Snapshot
from enginewatch.model import Millis
from enginewatch.notify import outbox
from enginewatch.notify.ledger import Changes, Saved
from enginewatch.notify.outbox import Entry
from enginewatch.statefile import Fault, StateError, StateFile

T = TypeVar("T")

_LOG: Final = logging.getLogger(__name__)

PATIENCE: Final = 2.0
"""Seconds that a notification waits to be written down before it is sent all the same."""

AGAIN: Final = 5.0
"""Seconds between two attempts to write to a file that could not be written."""

LOCK_ATTEMPTS: Final = 6
"""Each waits `statefile.WAIT_SECONDS` for a predecessor that is still ending."""

PRUNING: Final[Millis] = 3_600_000
RECENT: Final = 2_000
"""Entries of the record that are read at the start."""


class Loaded(NamedTuple):
    """What an earlier process left; all of it empty where it left nothing."""

    alerts: Snapshot | None = None
    saved: Saved = Saved()
    entries: tuple[Entry, ...] = ()


class Keeper:
    """Used in the event loop's thread; `everything` gives all there is when a new file begins."""

    def __init__(
        self,
        path: Path,
        clock: Callable[[], Millis],
        everything: Callable[[], tuple[Snapshot, Changes]],
        *,
        patience: float = PATIENCE,
        again: float = AGAIN,
    ):
        parts = {persist.PART: persist.MIGRATIONS, outbox.PART: outbox.MIGRATIONS}
        self._path: Final = str(path)
        self._file: Final = StateFile(path, parts, fresh=self._begin_anew)
        self._alerts: Final = persist.AlertStateTable()
        self._clock: Final = clock
        self._everything: Final = everything
        self._patience: Final = patience
        self._again: Final = again
        self._thread: Final = ThreadPoolExecutor(1, thread_name_prefix="state")
        self._snapshot: Snapshot | None = None
        self._changes = Changes()
        self._entries: dict[str, Entry] = {}
        self._void = False
        self._turn: asyncio.Task[bool] | None = None
        self._writing: asyncio.Task[bool] | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._pruned_at: Millis = 0
        self.fault: Fault | None = None
        self.failures: Final[Counter[Fault]] = Counter()
        self.saved_at: Millis = 0
        self.lost_at: Millis = 0
        """When this process began without what an earlier one had saved; 0: it did not."""

    def _begin_anew(self) -> None:
        self._void = True
        self._alerts.forget()

    async def load(self) -> Loaded:
        """What was saved; nothing where that can't be read, which is logged.

        Raises StateError when another process uses the file: two daemons would
        each tell of everything, and overwrite what the other remembers.
        """
        for attempt in range(1, LOCK_ATTEMPTS + 1):
            try:
                loaded = await self._in_thread(self._load)
            except StateError as failure:
                if failure.fault is not Fault.LOCKED:
                    self._failed(failure)
                    break
                if attempt == LOCK_ATTEMPTS:
                    raise
                _LOG.warning("waiting for the state: %s", failure)
            else:
                if not self._void:
                    return loaded
                break  # a broken file was set aside
        self.lost_at = self._clock()
        return Loaded()

    def _load(self) -> Loaded:
        with self._file.reading() as db:
            try:
                return Loaded(
                    self._alerts.load(db),
                    outbox.load(db),
                    tuple(outbox.recent(db, RECENT)),
                )
            except StateError as failure:
                if failure.fault is not Fault.CORRUPT:
                    raise
                reason = str(failure)
        self._file.set_aside(reason)
        return Loaded()

    def put(
        self,
        changes: Changes,
        entries: Iterable[Entry] = (),
        alerts: Snapshot | None = None,
    ) -> None:
        """To be written with the next commit."""
        if self.fault is None:  # else all there is will be written
            self._changes.update(changes)
            self._snapshot = alerts or self._snapshot
        for entry in entries:
            self._entries[entry.id] = entry
        while len(self._entries) > RECENT:
            del self._entries[next(iter(self._entries))]

    async def commit(self) -> bool:
        """Whether all that was put is on the disk. Says no at once while that is known to fail."""
        if self.fault is not None:
            return False
        turn = self._next_turn()
        done, _ = await asyncio.wait({turn}, timeout=self._patience)
        if not done:
            _LOG.error("%s: not written within %g s", self._path, self._patience)
        return bool(done) and turn.result()

    async def close(self) -> None:
        """Writes what is left, if it can, and lets go of the file."""
        if self._retry is not None:
            self._retry.cancel()
        await asyncio.wait({self._next_turn()}, timeout=self._patience)
        self._thread.submit(self._file.close)
        self._thread.shutdown(wait=False)

    def _next_turn(self) -> asyncio.Task[bool]:
        """The write that will have all that was put until now."""
        if self._turn is None:
            self._turn = asyncio.create_task(self._take_turn(self._writing), name="save")
        return self._turn

    async def _take_turn(self, before: asyncio.Task[bool] | None) -> bool:
        if before is not None:
            await asyncio.wait({before})
        self._writing, self._turn = self._turn, None
        snapshot, self._snapshot = self._snapshot, None
        changes, self._changes = self._changes, Changes()
        entries, self._entries = self._entries, {}
        try:
            await self._write(snapshot, changes, entries)
        except StateError as failure:
            self._entries = {**entries, **self._entries}
            self._failed(failure)
            return False
        except Exception as defect:  # noqa: BLE001 - what can't be written must still be told
            _LOG.exception("saving")
            self._failed(StateError(f"can't be used: {defect!r}", Fault.OTHER, where=self._path))
            return False
        if self.fault is not None:
            _LOG.warning("%s can be written again", self._path)
        self.fault = None
        self.saved_at = self._clock()
        return True

    async def _write(
        self, snapshot: Snapshot | None, changes: Changes, entries: Mapping[str, Entry]
    ) -> None:
        written = False
        while not written:
            whole = self._void
            if whole:
                snapshot, changes = self._everything()
            store = partial(self._store, snapshot, changes, tuple(entries.values()), whole=whole)
            written = await self._in_thread(store)

    def _store(
        self,
        snapshot: Snapshot | None,
        changes: Changes,
        entries: Iterable[Entry],
        *,
        whole: bool,
    ) -> bool:
        """Whether it was written: not, if the file turned out to be another and asks for all."""
        with self._file.transaction() as db:
            if self._void and not whole:
                return False
            if snapshot is not None:
                self._alerts.write(db, snapshot)
            outbox.write(db, changes, entries, anew=whole)
            now = self._clock()
            if abs(now - self._pruned_at) > PRUNING:
                outbox.prune(db, now)
                self._pruned_at = now
        if snapshot is not None:
            self._alerts.confirm()
        if whole:
            self._void = False
        return True

    def _failed(self, failure: StateError) -> None:
        self._begin_anew()
        self.failures[failure.fault] += 1
        if failure.fault is not self.fault:  # once: it is tried again every few seconds
            _LOG.error("what is told from now on would not survive a restart: %s", failure)
        self.fault = failure.fault
        loop = asyncio.get_running_loop()
        self._retry = loop.call_later(self._again, lambda: self._next_turn() and None)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
