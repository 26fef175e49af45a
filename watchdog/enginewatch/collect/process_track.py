"""What is made of looks at the process table: engines' processes, and how they fare over time.

Pure functions of (what was seen, when): the table itself is read in `process.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from enginewatch.collect.process_identity import Identity
from enginewatch.collect.process_table import Stat, State
from enginewatch.model import METRIC_NAME, Labels, Millis, Sample

JOB: Final = "processes"
PREFIX: Final = "enginewatch_process_"

INITS: Final = frozenset(
    {"systemd", "init", "tini", "dumb-init", "docker-init", "catatonit", "s6-svscan", "runit"}
)
"""Processes that adopt orphans, by their short name."""

Key = tuple[int, int]
"""PID and start: one process, even when its number is used again."""


class Seen(NamedTuple):
    """One process of an engine in one look. `target` are the labels of the scraped target it
    works for, `adopted` is whether its parent is an init that adopts orphans."""

    stat: Stat
    identity: Identity
    target: Labels | None
    adopted: bool
    started: float
    """Unix seconds."""


@dataclass(frozen=True, slots=True)
class Track:
    """What is remembered of a process from look to look."""

    first_parent: int
    state: State
    cpu: float
    since: Millis
    """Since when it has been in this state and has used no processor."""


@dataclass(frozen=True, slots=True)
class Tracks:
    """Of all processes; `starts` counts the processes that each place has had."""

    processes: Mapping[Key, Track] = field(default_factory=dict)
    starts: Mapping[Labels, int] = field(default_factory=dict)
    places: Mapping[Key, Labels] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Defaults:
    """The labels of what belongs to no scraped target."""

    host: str
    deployment: str


def follow(before: Tracks, seen: Sequence[Seen], now: Millis, defaults: Defaults) -> Tracks:
    """What is remembered after this look."""
    processes = {}
    for each in seen:
        stat = each.stat
        old = before.processes.get(stat.key)
        still = old is not None and (old.state, old.cpu) == (stat.state, stat.cpu)
        processes[stat.key] = Track(
            first_parent=stat.ppid if old is None else old.first_parent,
            state=stat.state,
            cpu=stat.cpu,
            since=old.since if old is not None and still else now,
        )
    places = {each.stat.key: labels for each, labels in placed(seen, defaults)}
    starts = Counter(before.starts)
    starts.update(labels for key, labels in places.items() if key not in before.places)
    live = frozenset(places.values())
    # One that is called otherwise now, because another like it came or went, has started once.
    starts.update(live - starts.keys())
    # A place that is empty keeps its count for as long as its engine has any process left.
    engines = {_engine(labels) for labels in live}
    kept = {labels: count for labels, count in starts.items() if _engine(labels) in engines}
    return Tracks(processes, kept, places)


def samples(tracks: Tracks, seen: Sequence[Seen], now: Millis) -> Iterator[Sample]:
    """One round: everything that is to be said now of processes that `follow` has seen."""
    for each in seen:
        labels, track = tracks.places[each.stat.key], tracks.processes[each.stat.key]
        yield from _of_process(labels, each, track, now)
        yield _sample("starts_total", labels, tracks.starts[labels])


def placed(seen: Iterable[Seen], defaults: Defaults) -> Iterator[tuple[Seen, Labels]]:
    """Each process with its labels. Those that are alike get a rank by their age."""
    ordered = sorted(seen, key=lambda each: (each.stat.start, each.stat.pid))
    own = [(each, _labels(each, defaults)) for each in ordered]
    alike = Counter(labels for _, labels in own)
    taken: Counter[Labels] = Counter()
    for each, labels in own:
        if alike[labels] == 1:
            yield each, labels
            continue
        number, taken[labels] = taken[labels], taken[labels] + 1
        rank = f"{each.identity.rank}#{number}" if each.identity.rank else str(number)
        yield each, labels.with_(rank=rank)


def _labels(each: Seen, defaults: Defaults) -> Labels:
    identity = each.identity
    if each.target is not None:
        whose = {name: each.target.get(name, "") for name in ("job", "instance", "deployment")}
    else:
        whose = {"job": JOB, "instance": defaults.host, "deployment": defaults.deployment}
    if identity.deployment is not None:
        whose["deployment"] = identity.deployment
    return Labels(
        {
            **whose,
            "host": defaults.host,
            "runtime": identity.runtime,
            "role": identity.role,
            "title": identity.title,
            "rank": identity.rank,
            "dp": identity.dp,
        }
    )


def _engine(labels: Labels) -> Labels:
    return labels.only(("job", "instance", "deployment", "runtime"))


def _of_process(labels: Labels, each: Seen, track: Track, now: Millis) -> Iterator[Sample]:
    stat = each.stat
    for state in State:
        yield _sample("state", labels.with_(state=state), float(stat.state is state))
    yield _sample("still_seconds", labels, (now - track.since) / 1000)
    yield _sample("cpu_seconds_total", labels, stat.cpu)
    yield _sample("resident_memory_bytes", labels, stat.rss)
    yield _sample("start_time_seconds", labels, each.started)
    orphaned = each.adopted or stat.ppid != track.first_parent
    yield _sample("orphaned", labels, float(orphaned and each.identity.role != "server"))
    yield _sample("info", labels.with_(pid=str(stat.pid)), 1.0)


def _sample(name: str, labels: Labels, value: float) -> Sample:
    return Sample(labels.with_(**{METRIC_NAME: PREFIX + name}), value)
