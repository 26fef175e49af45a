"""Services of a compose file (https://github.com/compose-spec/compose-spec, spec.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from enginewatch.preflight.readers.shell import Word, read_script
from enginewatch.preflight.readers.shell_lexer import ShellError
from enginewatch.preflight.readers.workload import Probe, Workload, is_template, probe_of
from enginewatch.preflight.readers.yamldata import Tree
from enginewatch.units import parse_duration, parse_size

_VARIABLE: Final = re.compile(r"\$(?:\{([A-Za-z_]\w*)(?:(:?[-?+])([^}]*))?\}|([A-Za-z_]\w*))")
_DEFAULTS: Final = {"period_s": 30.0, "timeout_s": 30.0, "failures": 3.0, "delay_s": 0.0}
"""Defaults of a healthcheck (Dockerfile reference, HEALTHCHECK)."""
_GRACE_S: Final = 10.0
"""From SIGTERM to SIGKILL, where `stop_grace_period` is not given."""


def read_compose(document: Tree, file: str) -> Iterator[Workload]:
    """The services of a document, in its order; none where it has none."""
    for name, service in document.at("services").items():
        notes = [note for key, note in _OUTSIDE.items() if service.at(key)]
        entry = _words(service.at("entrypoint"), file)
        command = _words(service.at("command"), file)
        grace = _span(service.at("stop_grace_period"))
        yield Workload(
            name=name,
            kind="compose",
            image=_interpolated(service.at("image").text())[0],
            where=f"{file}:{service.line}",
            words=(*entry, *command),
            entrypoint=bool(entry),
            env=dict(_environment(service.at("environment"))),
            gpus=_gpus(service),
            shm_bytes=_bytes(service.at("shm_size")),
            shares_ipc=service.at("ipc").text() == "host",
            probes=tuple(_healthcheck(service.at("healthcheck"), file)),
            grace_s=_GRACE_S if grace is None else grace,
            notes=tuple(notes),
        )


_OUTSIDE: Final = {
    "env_file": "the environment file",
    "extends": "the environment and the options of what it extends",
}
"""Keys whose content stands in another file, and what is not known for it."""


def _environment(environment: Tree) -> Iterator[tuple[str, Word]]:
    """A mapping, or a list of `NAME=value`; a name without a value comes from the shell."""
    for name, value in environment.items():
        text, known = _interpolated(value.text())
        yield name, Word(text, text, value.line, known and value.value is not None)
    for entry in environment.each():
        name, equals, value_text = entry.text().partition("=")
        text, known = _interpolated(value_text)
        yield name, Word(text, text, entry.line, known and bool(equals))


def _words(words: Tree, file: str) -> list[Word]:
    """A list, or a text that compose splits as a shell would."""
    if isinstance(words.value, str):
        text = _interpolated(words.value)[0]
        try:
            commands = read_script(text.replace("\n", " "), file, first_line=words.line).commands
        except ShellError:
            return [Word(text, text, words.line)]
        return [word._replace(line=words.line) for each in commands for word in each.words]
    found: list[Word] = []
    for word in words.each():
        text, known = _interpolated(word.text())
        found.append(Word(text, text, word.line, known))
    return found


def _interpolated(text: str) -> tuple[str, bool]:
    """Compose's `${NAME:-default}` as its default, `$$` as `$`, and whether all is known."""
    known = not is_template(text)

    def value(found: re.Match[str]) -> str:
        nonlocal known
        if found[2] and found[2].endswith("-"):
            return found[3]
        known = False
        return found[0]

    parts = [_VARIABLE.sub(value, part) for part in text.split("$$")]
    return "$".join(parts), known


def _gpus(service: Tree) -> int | None:
    """Of `gpus`, and of reserved devices; -1 is all, None where that is not told."""
    gpus = service.at("gpus")
    if gpus.text():
        return _count(gpus)
    devices = service.at("deploy", "resources", "reservations", "devices").each()
    asked = [
        *(each for each in devices if "gpu" in {one.text() for one in _capabilities(each)}),
        *gpus.each(),
    ]
    counts = [
        len(each.at("device_ids").each()) or (_count(each.at("count")) if each.at("count") else -1)
        for each in asked
    ]
    known = [count for count in counts if count is not None]
    if not known or len(known) < len(counts):
        return None
    return -1 if -1 in known else sum(known)


def _capabilities(device: Tree) -> Iterator[Tree]:
    """Written as a list, or as a list of lists."""
    for each in device.at("capabilities").each():
        yield from each.each() or [each]


def _count(tree: Tree) -> int | None:
    number = tree.number()
    return int(number) if number is not None else -1 if tree.text() == "all" else None


def _healthcheck(check: Tree, file: str) -> Iterator[Probe]:
    if check.value is None or check.at("disable").value is True:
        return
    test = check.at("test")
    asks = test.text() or " ".join(word.text() for word in test.each())
    given = {
        "period_s": _span(check.at("interval")),
        "timeout_s": _span(check.at("timeout")),
        "failures": check.at("retries").number(),
        "delay_s": _span(check.at("start_period")),
    }
    yield probe_of("health", asks, f"{file}:{check.line}", given, _DEFAULTS)


def _span(tree: Tree) -> float | None:
    """A duration of Go (`1m30s`) in seconds."""
    try:
        return parse_duration(tree.text()) / 1000 if tree else None
    except ValueError:
        return None


def _bytes(tree: Tree) -> int | None:
    if isinstance(tree.value, int):
        return tree.value
    try:
        return parse_size(tree.text()) if tree else None
    except ValueError:
        return None
