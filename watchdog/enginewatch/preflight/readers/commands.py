"""Options that name a way to start an engine: a command, a script, a manifest. Each gives facts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from enginewatch.errors import EnginewatchError
from enginewatch.preflight.readers.fronts import read_fronts
from enginewatch.preflight.readers.launch import Launch, read_launches, workload_launches
from enginewatch.preflight.readers.launchers.base import Files
from enginewatch.preflight.readers.manifest import read_manifest, unread_documents
from enginewatch.preflight.readers.shell import Script, ShellError, read_script
from enginewatch.preflight.readers.unread import Unread
from enginewatch.preflight.readers.workload import Front, Workload, is_template
from enginewatch.preflight.readers.wrappers import program
from enginewatch.preflight.readers.yamldata import YamlDataError, read_yaml

_MOST_CONFIGURATION: Final = 1 << 20
_HARMLESS: Final = frozenset(
    {"activate", "conda.sh", "profile", ".bashrc", ".profile", "setvars.sh"}
)
"""Names of scripts that set up a shell or a Python environment, and no engine."""
_CARRIERS: Final = frozenset(
    {"ssh", "pdsh", "clush", "pssh", "kubectl", "oc", "tmux", "screen", "ray", "xargs", "parallel",
     "sbatch", "salloc", "systemd-run", "start-stop-daemon", "watch", "script", "at", "batch"}
)  # fmt: skip
"""Programs that run what stands behind them on another machine, in another session or later."""
_STARTS: Final = re.compile(r"\b(?:vllm serve|vllm\.entrypoints|trtllm-|tritonserver|sglang)")


class Started(NamedTuple):
    """What a command, a script or a manifest starts, and what of it could not be read."""

    launches: tuple[Launch, ...] = ()
    workloads: tuple[Workload, ...] = ()
    unread: tuple[Unread, ...] = ()
    fronts: tuple[Front, ...] = ()


def started_by_text(text: str, name: str, files: Files) -> Started:
    """What shell text starts. Text that starts nothing known is not read: it may not pass."""
    try:
        script = read_script(text, name)
        launches = read_launches(script, files)
    except ShellError as failure:
        return Started(unread=(_unread(failure, name),))
    unread = list(_elsewhere(script))
    if not launches:
        what = "no command in it starts an engine that is known here"
        unread.append(Unread(name, what, "launch"))
    containers = [launch.container for launch in launches if launch.container is not None]
    return Started(launches, tuple(containers), tuple(unread))


def _elsewhere(script: Script) -> Iterator[Unread]:
    """What a script leaves to others, which may set variables or start engines."""
    for word in script.sourced:
        if program(word) not in _HARMLESS:
            what = f"it runs {word.raw} inside itself, which is not read and may set any variable"
            yield Unread(f"{script.name}:{word.line}", what, "launch")
    for command in script.commands:
        text = " ".join(word.text for word in command.words)
        if program(command.words[0]) in _CARRIERS and _STARTS.search(text):
            what = f"what {command.words[0].text} runs elsewhere is not read"
            yield Unread(f"{script.name}:{command.line}", what, "launch")


def started_by_manifest(text: str, name: str, files: Files) -> Started:
    """What the containers of a manifest start; images with an entry point of their own, too."""
    try:
        documents = read_yaml(text, name)
    except YamlDataError as failure:
        found = _unread(failure, name)
        if is_template(text):
            hint = "it is a template: render it first, as with helm template"
            found = found._replace(what=f"{found.what} ({hint})")
        return Started(unread=(found,))
    workloads, fronts = read_manifest(documents, name), read_fronts(documents, name)
    launches: list[Launch] = []
    unread = list(unread_documents(documents, name))
    for workload in workloads:
        try:
            started = workload_launches(workload, name, files)
        except ShellError as failure:
            unread.append(_unread(failure, workload.where))
            continue
        launches += started
        if workload.gpus and not started:
            what = f"{workload.name} asks for GPUs, and starts no engine that is known here"
            unread.append(Unread(workload.where, what, "launch"))
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
