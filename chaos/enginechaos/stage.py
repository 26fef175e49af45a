"""Sets up what takes part in a test, and takes it down: each part a context of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from enginechaos.actions import End
from enginechaos.embedded import EmbeddedEngine
from enginechaos.external import open_target
from enginechaos.interrupts import terminated_like_interrupted
from enginechaos.journal import Record
from enginechaos.load import QUIET, Load, Mix
from enginechaos.lock import TargetLock
from enginechaos.observer import Observer
from enginechaos.processes import Process
from enginechaos.receivers import Receivers
from enginechaos.run import Run
from enginechaos.scene import Scene
from enginechaos.sim.settings import Settings
from enginechaos.staging import refuse_labels
from enginechaos.target import Target
from enginechaos.undo import Owed
from enginechaos.watchdog import StartedWatchdog, Watchdog, settings_for, write_settings


@contextlib.contextmanager
def running(run: Run) -> Iterator[Run]:
    """Hold the target's lock; at the end, undo what is still owed. Raises ChaosError.

    An external target is reached once here: where that fails there is nothing to test.
    """
    if run.dry_run:
        yield run
        return
    run.make_folder()
    with contextlib.ExitStack() as held:
        if run.staging is not None:
            lock = TargetLock(run.staging.identity, run.folder)
            lock.take()
            held.callback(lock.release)
            open_target(run.staging)
        held.enter_context(terminated_like_interrupted())
        try:
            yield run
        finally:
            run.settle()


class Processes:
    """Processes that the suite starts: their end is promised on disk as soon as they live."""

    def __init__(self, run: Run, what: str):
        self._run = run
        self._what = what
        self._owed: list[Owed] = []

    def started(self, process: Process) -> None:
        self._owed += self._run.undo.promise(self._what, [End(process)])

    def ended(self) -> None:
        list(self._run.undo.settle(self._owed))


@contextlib.contextmanager
def engines(run: Run, module: str) -> Iterator[Callable[..., EmbeddedEngine]]:
    """Give a function that starts simulated engines; all of them end with the context."""
    with contextlib.ExitStack() as held:

        def start(name: str, **settings: object) -> EmbeddedEngine:
            processes = Processes(run, f"engine {name}")
            made = EmbeddedEngine(
                run.folder / "engines" / f"{module}-{name}",
                name,
                {"seed": run.seed, **settings},
                processes.started,
            )
            if not run.dry_run:
                held.callback(processes.ended)
                held.callback(made.stop)
                made.start()
            return made

        yield start


def target_of(
    run: Run, start: Callable[..., EmbeddedEngine], name: str, settings: Mapping[str, Any]
) -> Target:
    """The target file's, or a simulated engine of these settings."""
    if run.staging is not None:
        found = replace(open_target(run.staging), backups=run.folder / "backups")
        run.conditions[found.name] = run.staging.model_dump(mode="json")
        return found
    made = start(name, **settings)
    run.conditions[made.target.name] = Settings.model_validate(made.settings).behaviour()
    return made.target


@contextlib.contextmanager
def receivers_of(run: Run) -> Iterator[Receivers]:
    made = Receivers()
    if run.staging is not None:
        part = run.staging.receivers
        host, _, port = part.listen.rpartition(":")
        made = Receivers(part.names, host, int(port))
    if run.dry_run:
        yield made
        return
    made.start()
    try:
        yield made
    finally:
        made.stop()


@contextlib.contextmanager
def load_of(run: Run, target: Target, mix: Mix = QUIET) -> Iterator[Load]:
    """The target file's, or `mix`."""
    file = run.staging
    made = Load(
        target.url,
        target.model,
        seed=run.seed,
        mix=mix if file is None else file.mix,
        headers={} if file is None else file.headers(),
    )
    try:
        if not run.dry_run:
            made.start()
        yield made
    finally:
        made.stop()


@contextlib.contextmanager
def watchdog_of(
    run: Run,
    target: Target,
    receivers: Receivers,
    module: str,
    sections: Mapping[str, Any] = MappingProxyType({}),
) -> Iterator[Watchdog]:
    """The one that the target file names, or one that is started here; `sections` are those of
    its configuration beside what each test's watchdog has. Raises ChaosError."""
    url = run.staging.watchdog.url if run.staging is not None else None
    if run.dry_run or url is not None:
        made = Watchdog(url or "")
        try:
            if not run.dry_run:
                _note(run, made, target)
            yield made
        finally:
            made.stop()
        return
    folder = run.folder / "watchdogs" / module
    processes = Processes(run, "the watchdog")
    config = write_settings({**settings_for(target, receivers, folder), **sections}, folder)
    started = StartedWatchdog(config, processes.started)
    try:
        started.start()
        _note(run, started, target)
        yield started
    finally:
        started.stop()
        processes.ended()


def _note(run: Run, watchdog: Watchdog, target: Target) -> None:
    """Its version, for the journal; and the last look at whether this is production."""
    run.versions["watchdog"] = watchdog.version()
    if run.staging is None:
        return
    for each in watchdog.targets():
        if each["labels"].get("deployment") == target.deployment:
            refuse_labels(each["labels"], watchdog.url)


@contextlib.contextmanager
def scene_of(
    run: Run,
    record: Record,
    *,
    target: Target,
    receivers: Receivers,
    load: Load,
    watchdog: Watchdog,
) -> Iterator[Scene]:
    """All of it together, and the observer that keeps the story of each alert."""
    record.tier, record.target = target.tier, target.name
    record.config_digest, record.versions = run.digest(target.name), dict(run.versions)
    observer = Observer(watchdog, target.deployment)
    made = Scene(
        target=target,
        watchdog=watchdog,
        receivers=receivers,
        observer=observer,
        load=load,
        undo=run.undo,
        budgets=run.budgets,
        record=record,
        run_ends_at=run.ends_at,
    )
    if run.staging is not None:
        made.steady_within = run.staging.limits.steady
    if run.dry_run:
        yield made
        return
    observer.start()
    try:
        yield made
    finally:
        observer.stop()
