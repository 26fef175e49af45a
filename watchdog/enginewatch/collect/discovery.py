"""Which targets there are now: those of the configuration, and those in target files."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from enginewatch.collect.target import ScrapeTarget, make_target
from enginewatch.config import (
    Config,
    ConfigError,
    FileSdConfig,
    ScrapeConfig,
    StaticConfig,
    matching,
    read_text,
    read_yaml,
    validated,
)
from enginewatch.model import Labels, Millis

_log = logging.getLogger(__name__)

_Version = tuple[int, int, int]
Groups = tuple[StaticConfig, ...]


class Found(NamedTuple):
    """The targets, and what is wrong with the files and groups that should have told more."""

    targets: tuple[ScrapeTarget, ...]
    problems: tuple[str, ...]


def parse_target_file(text: str, path: Path) -> Groups:
    """The groups in a target file, JSON or YAML by its suffix. Raises ConfigError."""
    if path.suffix == ".json":
        try:
            json.loads(text)
        except (ValueError, RecursionError) as failure:
            raise ConfigError(f"not JSON: {failure}", where=str(path)) from None
        # JSON is YAML, but for tabs between its tokens; inside its strings there are none.
        text = text.replace("\t", " ")
    tree = read_yaml(text, str(path))
    if tree.data is None:
        return ()
    return validated(Groups, tree, base=path.parent)


@dataclass
class _File:
    """A target file as it was last read. A version that can't be read leaves the groups."""

    version: _Version | None = None
    groups: Groups = ()
    problem: str = ""


@dataclass
class _Watch:
    """The files of one file_sd_config."""

    config: FileSdConfig
    files: dict[Path, _File] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    looked: Millis | None = None

    def look(self, now: Millis) -> bool:
        """Read what changed, if it is time to look again; tells whether anything did."""
        # Also when the clock was set back: the next look must not be hours away.
        if self.looked is not None and 0 <= now - self.looked < self.config.refresh_interval:
            return False
        first, self.looked = self.looked is None, now
        before = (set(self.files), self.problems)
        present: dict[Path, _File] = {}
        absent: list[str] = []
        for pattern in self.config.files:
            paths = matching(pattern)
            if not paths and "*" not in pattern.name:
                absent.append(f"{pattern}: no such target file")
            for path in paths:
                present[path] = self.files.get(path) or _File()
        self.files = present
        read = [_reread(path, file) for path, file in present.items()]
        problems = (*absent, *(file.problem for file in present.values() if file.problem))
        for problem in problems:
            if problem not in self.problems:
                _log.warning("target files: %s", problem)
        self.problems = problems
        return first or any(read) or before != (set(present), problems)


def _reread(path: Path, file: _File) -> bool:
    """Read a file if it is not the one that was read last; tells whether it was read."""
    try:
        status = path.stat()
        version = (status.st_mtime_ns, status.st_ino, status.st_size)
        if version == file.version:
            return False
        file.version = version
        file.groups = parse_target_file(read_text(path, "the target file"), path)
        file.problem = ""
    except ConfigError as failure:
        faults = "; ".join(str(failure).splitlines())
        file.problem = f"{faults}; the last good content stays in force"
    except OSError as failure:
        file.problem = f"{path}: {failure.strerror or failure}"
    return True


class Discovery:
    """Finds the targets of one configuration, again and again.

    A file that is broken keeps the targets it last had; one that is gone takes
    them with it, as in Prometheus.
    """

    def __init__(self, config: Config):
        self._config: Final = config
        self._watches: Final = {
            job.job_name: [_Watch(file_sd) for file_sd in job.file_sd_configs]
            for job in config.scrape_configs
        }
        self._found: Found | None = None

    def targets(self, now: Millis) -> Found:
        """The targets as they are now; the same object as long as nothing changes."""
        looks = [watch.look(now) for watches in self._watches.values() for watch in watches]
        if self._found is None or any(looks):
            self._found = self._collect()
        return self._found

    def _collect(self) -> Found:
        problems = [p for watches in self._watches.values() for w in watches for p in w.problems]
        known: dict[Labels, ScrapeTarget] = {}
        for job in self._config.scrape_configs:
            for group in self._groups(job):
                for address in group.targets:
                    try:
                        one = make_target(self._config, job, address, group.labels)
                    except ConfigError as failure:
                        problems.append(f"job {job.job_name}: {failure}")
                        continue
                    other = known.setdefault(one.target.labels, one)
                    if other.target.url != one.target.url:
                        problems.append(
                            f"job {job.job_name}: {one.target.url} has the same labels as "
                            f"{other.target.url}, and is not scraped: {one.target.labels}"
                        )
        return Found(tuple(known.values()), tuple(problems))

    def _groups(self, job: ScrapeConfig) -> Iterator[StaticConfig]:
        yield from job.static_configs
        for watch in self._watches[job.job_name]:
            for file in watch.files.values():
                yield from file.groups


class Followed(Protocol):
    """What a collector keeps of a target."""

    @property
    def target(self) -> ScrapeTarget: ...


class Changes(NamedTuple):
    """Targets that are gone, or other than they were; and those to begin with."""

    gone: tuple[Labels, ...] = ()
    new: tuple[ScrapeTarget, ...] = ()


class Following:
    """What changes in the targets of one configuration that a collector wants."""

    def __init__(self, config: Config, wants: Callable[[ScrapeTarget], bool]):
        self._discovery: Final = Discovery(config)
        self._wants: Final = wants
        self._seen: tuple[ScrapeTarget, ...] | None = None

    def look(self, now: Millis, known: Mapping[Labels, Followed]) -> Changes:
        """How what is configured now differs from what is known; told once."""
        found = self._discovery.targets(now).targets
        if found is self._seen:
            return Changes()
        self._seen = found
        wanted = {one.target.labels: one for one in found if self._wants(one)}
        same = {labels for labels, each in known.items() if wanted.get(labels) == each.target}
        return Changes(
            tuple(labels for labels in known if labels not in same),
            tuple(one for labels, one in wanted.items() if labels not in same),
        )
