"""Options that name a way to start an engine: a command, a script, a manifest. Each gives facts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from enginewatch.errors import EnginewatchError
from enginewatch.preflight.readers.fronts import read_fronts
from enginewatch.preflight.readers.launch import Launch, read_launches, workload_launches
from enginewatch.preflight.readers.manifest import read_manifest
from enginewatch.preflight.readers.shell import ShellError, read_script
from enginewatch.preflight.readers.unread import Unread
from enginewatch.preflight.readers.workload import Front, Workload
from enginewatch.preflight.readers.yamldata import YamlDataError, read_yaml

_MOST_CONFIGURATION: Final = 1 << 20
Files = Callable[[str], str | None]


class Started(NamedTuple):
    launches: tuple[Launch, ...] = ()
    workloads: tuple[Workload, ...] = ()
    unread: tuple[Unread, ...] = ()
    fronts: tuple[Front, ...] = ()


def started_by_text(text: str, name: str, files: Files) -> Started:
    """What shell text starts. Text that starts nothing known is not read: it may not pass."""
    try:
        launches = read_launches(read_script(text, name), files)
    except ShellError as failure:
        return Started(unread=(_unread(failure, name),))
    if not launches:
        what = "no command in it starts an engine that is known here"
        return Started(unread=(Unread(name, what, "launch"),))
    containers = [launch.container for launch in launches if launch.container is not None]
    return Started(launches, tuple(containers))


def started_by_manifest(text: str, name: str, files: Files) -> Started:
    """What the containers of a manifest start; images with an entry point of their own, too."""
    try:
        documents = read_yaml(text, name)
    except YamlDataError as failure:
        return Started(unread=(_unread(failure, name),))
    workloads, fronts = read_manifest(documents, name), read_fronts(documents, name)
    launches: list[Launch] = []
    unread: list[Unread] = []
    for workload in workloads:
        try:
            launches += workload_launches(workload, name, files)
        except ShellError as failure:
            unread.append(_unread(failure, workload.where))
    if not workloads and not fronts:
        unread.append(Unread(name, "no service and no pod in it", "launch"))
    elif not launches and not unread and not fronts:
        what = "no container in it starts an engine that is known here"
        unread.append(Unread(name, what, "launch"))
    return Started(tuple(launches), workloads, tuple(unread), fronts)


def _unread(failure: EnginewatchError, name: str) -> Unread:
    hint = f" ({failure.hint})" if failure.hint else ""
    return Unread(failure.where or name, f"{failure.what}{hint}", "launch")


def files_beside(folder: Path) -> Files:
    """Configuration files by the path that a command names, from that folder; small texts only."""

    def read(path: str) -> str | None:
        try:
            with (folder / path).open("rb") as file:
                return file.read(_MOST_CONFIGURATION).decode()
        except (OSError, ValueError):
            return None

    return read
