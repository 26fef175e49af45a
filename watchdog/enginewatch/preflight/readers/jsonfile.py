"""JSON files of other programs: bounded, and never with an exception that a user sees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from enginewatch.preflight.readers.unread import Unread, not_read

LARGEST: Final = 64 << 20
"""Bytes; the index of a checkpoint with 100,000 tensors has about 10 MB."""


def read_object(path: Path, check: str = "") -> dict[str, Any] | Unread:
    """The object in a file, or why there is none. `check` goes without it."""
    try:
        if not path.is_file():
            return Unread(str(path), "is not a file", check)
        with path.open("rb") as stream:
            raw = stream.read(LARGEST + 1)
    except OSError as failure:
        return Unread(str(path), not_read(failure), check)
    if len(raw) > LARGEST:
        return Unread(str(path), f"longer than {LARGEST >> 20} MiB, which no such file is", check)
    try:
        found = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as failure:
        return Unread(str(path), f"not JSON: {failure or 'nested too deeply'}", check)
    if not isinstance(found, dict):
        return Unread(str(path), "holds no JSON object", check)
    return found


def is_there(path: Path) -> bool:
    """Whether a file is there; one in a folder that can't be entered is, so that it is asked for
    and told."""
    try:
        return path.exists()
    except OSError:
        return True


def at(tree: Any, *path: str) -> Any:
    """What stands below; None where nothing does."""
    for key in path:
        if not isinstance(tree, dict):
            return None
        tree = tree.get(key)
    return tree


def text(tree: Any, *path: str) -> str:
    """A string below, empty for anything else."""
    found = at(tree, *path)
    return found if isinstance(found, str) else ""


def whole(tree: Any, *path: str) -> int | None:
    """An integer below that is not negative; None for anything else."""
    found = at(tree, *path)
    return found if type(found) is int and found >= 0 else None
