"""Whose a process is: which engine, which role and rank in it, and which scraped target."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import psutil

from enginewatch.config import EngineProcessConfig
from enginewatch.evidence.tables import load_table
from enginewatch.model import Labels, Target, compile_re2

_MOST_TITLE: Final = 64
_PORT: Final = re.compile(r"(?:^|\s)--?(metrics-port|port|p|http-port)[\s=](\d{1,5})(?=\s|$)")
_PREFERRED: Final = ("metrics-port", "port", "p", "http-port")
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})  # noqa: S104 - compared


class Identity(NamedTuple):
    """What a command line tells. `rank` and `dp` (the data-parallel rank) are `""` if nothing."""

    runtime: str
    role: str
    title: str
    rank: str = ""
    dp: str = ""
    port: int | None = None
    """Where this runtime serves metrics if it is not told otherwise."""
    deployment: str | None = None


class Pattern(NamedTuple):
    regex: Any
    runtime: str
    role: str
    port: int | None
    deployment: str | None = None

    def identify(self, command: str) -> Identity | None:
        found = self.regex.search(command)
        if found is None:
            return None
        groups = found.groupdict()
        title = (groups.get("title") or found.group()).strip()
        return Identity(
            self.runtime,
            self.role,
            title[:_MOST_TITLE],
            (groups.get("rank") or "").strip("_"),
            groups.get("dp") or "",
            self.port,
            self.deployment,
        )


def known_patterns(folder: Path) -> tuple[Pattern, ...]:
    """Those of `rules/compat/processes.yml`. Raises SignatureError where it can't be read."""
    rows = load_table(folder / "compat" / "processes.yml").rows.values()
    return tuple(
        Pattern(
            compile_re2(str(row["pattern"])),
            str(row["runtime"]),
            str(row["role"]),
            int(str(row["port"])) if "port" in row else None,
        )
        for row in rows
    )


def configured_patterns(engines: Iterable[EngineProcessConfig]) -> tuple[Pattern, ...]:
    return tuple(
        Pattern(compile_re2(each.match), each.runtime, each.role, None, each.deployment)
        for each in engines
    )


def identify(command: str, patterns: Sequence[Pattern]) -> Identity | None:
    """The first pattern that matches says what it is; None for no engine's process."""
    for pattern in patterns:
        found = pattern.identify(command)
        if found is not None:
            return found
    return None


def port_of(commands: Iterable[str]) -> int | None:
    """The port in the first of these command lines that names one: its metrics', else its own."""
    for command in commands:
        given = {name: int(number) for name, number in reversed(_PORT.findall(command))}
        for name in _PREFERRED:
            if name in given:
                return given[name]
    return None


def local_targets(targets: Iterable[Target], hosts: frozenset[str]) -> Mapping[int, Labels]:
    """The labels of the targets on this machine, by port; a port that two have is nobody's."""
    found: dict[int, Labels | None] = {}
    for target in targets:
        parts = urlsplit(target.url)
        if (parts.hostname or "").lower() in hosts:
            port = parts.port or (443 if parts.scheme == "https" else 80)
            found[port] = None if port in found else target.labels
    return {port: labels for port, labels in found.items() if labels is not None}


def own_hosts() -> frozenset[str]:
    """The names and addresses by which this machine is itself."""
    name = socket.gethostname().lower()
    addresses = {
        each.address.partition("%")[0].lower()
        for interface in psutil.net_if_addrs().values()
        for each in interface
        if each.family in (socket.AF_INET, socket.AF_INET6)
    }
    return _LOOPBACK | {name, name.partition(".")[0]} | addresses


def owner(
    identity: Identity, commands: Iterable[str], targets: Mapping[int, Labels]
) -> Labels | None:
    """The target that a process works for; `commands` are its own and its ancestors', inner first.

    By the port that one of them names, else by the runtime's own; where this machine
    has a single target of the runtime, by that.
    """
    port = port_of(commands)
    if port is not None:
        return targets.get(port)
    if identity.port is not None and identity.port in targets:
        return targets[identity.port]
    fitting = [each for each in targets.values() if each.get("runtime") == identity.runtime]
    return fitting[0] if len(fitting) == 1 else None
