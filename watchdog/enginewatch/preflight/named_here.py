"""Directories that a command names and that are on this host: they are read as if they were given.

Those of containers are not: a path in an image, or in a volume, is not one of this host.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from enginewatch.preflight.artifacts import engine_dir, model_repository
from enginewatch.preflight.facts import Facts
from enginewatch.preflight.readers.checkpoint import CONFIG, read_checkpoint
from enginewatch.preflight.readers.launch import Launch

_ROLES: Final = {"model": "model", "draft_model": "draft"}


def named_here(facts: Facts) -> Facts:
    """What the commands among the facts name, beyond what was given."""
    places = [
        *(each.where for each in facts.checkpoints),
        *(each.where for each in facts.engines),
        *(each.where for each in facts.repositories),
    ]
    given = {Path(place).resolve() for place in places}
    found = Facts()
    for path, role in _paths(facts):
        if path.resolve() in given:
            continue
        given.add(path.resolve())
        found += _read(path, role)
    return found


def _paths(facts: Facts) -> Iterator[tuple[Path, str]]:
    for launch in facts.launches:
        # What is built is named before it is there.
        if launch.container is not None or launch.builds:
            continue
        for setting, role in (*_ROLES.items(), ("model_repository", "repository")):
            path = _directory(launch, setting)
            if path is not None:
                yield path, role


def _directory(launch: Launch, setting: str) -> Path | None:
    """`org/name` may be a folder here by chance; a path that is meant as one says so."""
    text = launch.text(setting)
    if not text.startswith(("/", "./", "../", "~")) and setting != "model_repository":
        return None
    try:
        path = Path(text).expanduser()
        return path if text and path.is_dir() else None
    except (OSError, RuntimeError, ValueError):
        return None


def _read(path: Path, role: str) -> Facts:
    if role == "repository":
        return model_repository(str(path))
    if role == "model" and next(path.glob("rank*.engine"), None) is not None:
        return engine_dir(str(path))
    if not (path / CONFIG).is_file():
        return Facts()
    found = read_checkpoint(path, role)
    return Facts(checkpoints=(found,), unread=found.unread)
