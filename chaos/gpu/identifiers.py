"""Logs as test data: what names a machine, a process or a GPU is replaced, the same by the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_UUID: Final = re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")
_ADDRESS: Final = re.compile(r"(?<![\d.])(?!127\.)(?!0\.0\.0\.0)\d{1,3}(?:\.\d{1,3}){3}(?![\d.])")
_BUILD: Final = re.compile(r"/(?:[\w.+-]+/)+(?=(?:site|dist)-packages/)")
_POINTER: Final = re.compile(r"\b0x[0-9a-f]{6,16}\b")
_HASH: Final = re.compile(r"\b[0-9a-f]{12}\b(?=[: ])")


def replace_identifiers(text: str, *, hosts: Mapping[str, str], folders: Mapping[str, str]) -> str:
    """`text` without names of machines.

    `hosts` and `folders` say what stands for a host's name and for a path's beginning. Loopback
    addresses, ports and process ids stay: they name nobody. UUIDs, other IPv4 addresses
    (192.0.2.N, RFC 5737), pointers and the folders that packages lie in are numbered in the order
    in which they come.
    """
    for name, stands in sorted({**hosts, **folders}.items(), key=lambda each: -len(each[0])):
        if name:
            text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", stands, text)
    text = _numbered(_UUID, text, "00000000-0000-0000-0000-{:012d}")
    text = _numbered(_ADDRESS, text, "192.0.2.{}")
    text = _numbered(_POINTER, text, "0x7f{:010x}")
    text = _numbered(_HASH, text, "{:012x}")
    return _BUILD.sub("/usr/lib/python3/", text)


def _numbered(pattern: re.Pattern[str], text: str, form: str) -> str:
    seen: dict[str, str] = {}
    return pattern.sub(
        lambda found: seen.setdefault(found.group(), form.format(len(seen) + 1)), text
    )
