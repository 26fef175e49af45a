"""One log line, freed of what terminals, runtimes and launchers put around it.

A signature is written against what the program printed. On the way to a file that
may get colours, a JSON envelope, a pod's name, Ray's worker prefix, and a note
that the line stood there six times.
"""

from __future__ import annotations

import json
import re
from typing import Final, NamedTuple

from enginewatch.evidence.times import Stamp

LONGEST: Final = 64 * 1024
"""Bytes of a line that are looked at. What follows is never a message of its own."""

_ANSI: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_CRI: Final = re.compile(r"(\d{4}-\d\d-\d\dT\S+) (?:stdout|stderr) [FP] ")
_PROCESS: Final = re.compile(
    r"\((?P<name>(?:EngineCore|A[Pp][Ii]Server|Worker|VllmWorker|DPCoordinator|Ray)[\w.:-]*)"
    r"(?: [a-z_]+=[^)]*)?\) ?"
)
"""vLLM's `(EngineCore_DP0 pid=88) `, Ray's `(RayWorkerWrapper pid=5085, ip=10.0.0.2) `."""
_HEAD: Final = 160
"""Where prefixes stand: before them only what journald, Compose or kubectl put there."""
_REPEATED: Final = re.compile(r"\s*\[repeated (\d+)x across cluster\].*$")
_SYSLOG_REPEATED: Final = re.compile(r"message repeated (\d+) times: \[ ?(.*)\]$")
_BOOT: Final = re.compile(r"(?:<\d+>)?\[ *\d+\.\d{6}\]")

_ENVELOPES: Final = ("log", "message", "msg", "MESSAGE", "text")
"""Keys that hold the line in JSON logs: Docker's, Python JSON formatters', journald's."""
_STAMPS: Final = ("time", "timestamp", "asctime", "ts")


class Line(NamedTuple):
    """A line as its program printed it.

    `number` counts from 1 in the source. `stamp` is the line's own time, or that of
    the nearest line before that had one. `emitter` is the process that a vLLM or
    Ray prefix names (`EngineCore_DP0`), `kernel`, or empty. `repeat` is how many
    lines this one stands for.
    """

    number: int
    text: str
    stamp: Stamp | None = None
    emitter: str = ""
    repeat: int = 1


def decode(raw: bytes) -> str:
    """Bytes as text; what is not UTF-8 becomes replacement characters."""
    return raw[:LONGEST].decode("utf-8", "replace")


def unfold(text: str) -> list[str]:
    """A progress bar rewrites its line with carriage returns: each state is a line of its own."""
    return [part for part in text.split("\r") if part] if "\r" in text else [text]


def clean(text: str) -> str:
    """Without colours, control characters, and the envelope of a container runtime."""
    if text[:1] == "{":
        text = _without_envelope(text)
    if not text.isprintable():
        text = _CONTROL.sub("", _ANSI.sub("", text))
    if text[:4].isdigit() and (envelope := _CRI.match(text)):
        text = f"{envelope[1]} {text[envelope.end() :]}"
    return text


def unwrapped(record: object) -> str | None:
    """The line in a JSON envelope, or None where this is none."""
    if not isinstance(record, dict):
        return None
    found = next((record[key] for key in _ENVELOPES if isinstance(record.get(key), str)), None)
    return None if found is None else str(found).rstrip("\r\n")


def _without_envelope(text: str) -> str:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return text
    inner = unwrapped(record)
    if inner is None:
        return text
    stamp = next((record[key] for key in _STAMPS if isinstance(record.get(key), str)), "")
    return f"{stamp} {inner}" if stamp and stamp not in inner else inner


def peel(text: str) -> tuple[str, str, int]:
    """A cleaned line as (what the program printed, its process, how many lines it stands for).

    Ray's prefix goes; vLLM's own stays in the text, since it is part of what was printed.
    """
    repeat = 1
    emitter = ""
    if "repeated" in text:
        text, repeat = _fold(text)
    if "(" in text[:_HEAD]:
        text, emitter = _without_ray(text)
    if not emitter and _is_kernel(text):
        emitter = "kernel"
    return text, emitter, repeat


def _without_ray(text: str) -> tuple[str, str]:
    """The text without Ray's prefix, and the innermost process that a prefix names."""
    emitter = ""
    for found in list(_PROCESS.finditer(text, 0, _HEAD)):
        emitter = found["name"]
        if emitter.startswith("Ray"):
            text = text.replace(found[0], "", 1)
    return text, emitter


def _fold(text: str) -> tuple[str, int]:
    found = _REPEATED.search(text)
    if found is not None:
        return text[: found.start()], int(found[1])
    found = _SYSLOG_REPEATED.search(text)
    if found is not None:
        return text[: found.start()] + found[2], int(found[1])
    return text, 1


def _is_kernel(text: str) -> bool:
    head = text[:_HEAD]
    return "kernel: " in head or "NVRM: " in head or _BOOT.match(head) is not None
