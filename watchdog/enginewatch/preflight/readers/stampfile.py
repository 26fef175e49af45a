"""The stamp of an engine as a file: what it was built from and for, and reading it back."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from enginewatch.preflight.capability import Capability, parse_capability
from enginewatch.preflight.errors import PreflightError
from enginewatch.preflight.readers.digest import Digest
from enginewatch.preflight.readers.jsonfile import at, is_there, read_object, text
from enginewatch.preflight.readers.jsonfile import whole as count_of
from enginewatch.preflight.readers.unread import Unread

FORM: Final = 1
"""The only form of the file so far."""
STAMP: Final = "enginewatch-stamp.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """`where` is the engine's folder. Files are by name; `shapes` are limits and parallel sizes;
    what was not known when it was made is empty or None."""

    where: str
    made: str = ""
    engines: Mapping[str, Digest] = field(default_factory=dict)
    model: str = ""
    revision: str = ""
    files: Mapping[str, Digest] = field(default_factory=dict)
    precision: Mapping[str, str] = field(default_factory=dict)
    shapes: Mapping[str, int] = field(default_factory=dict)
    gpu: str = ""
    capability: Capability | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    command: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "enginewatch_stamp": FORM,
            "made": self.made,
            "engines": {name: one._asdict() for name, one in self.engines.items()},
            "model": {
                "path": self.model,
                "revision": self.revision,
                "files": {name: one._asdict() for name, one in self.files.items()},
            },
            "precision": dict(self.precision),
            "shapes": dict(self.shapes),
            "gpu": {
                "model": self.gpu,
                "compute_capability": str(self.capability or ""),
            },
            "versions": dict(self.versions),
            "command": self.command,
        }


def write_stamp(stamp: Stamp) -> Path:
    """Beside the engine; a stamp that is there is replaced whole. Raises PreflightError."""
    path = Path(stamp.where) / STAMP
    beside = path.with_suffix(".tmp")
    try:
        beside.write_text(json.dumps(stamp.to_json(), indent=2) + "\n", encoding="utf-8")
        beside.replace(path)
    except OSError as failure:
        beside.unlink(missing_ok=True)
        what = f"can't be written: {failure.strerror or os.strerror(failure.errno or 0)}"
        raise PreflightError(what, where=str(path)) from None
    return path


def read_stamp(folder: Path) -> Stamp | Unread | None:
    """The stamp in an engine's folder; None where there is none."""
    path = folder / STAMP
    if not is_there(path):
        return None
    found = read_object(path, "stale")
    if isinstance(found, Unread):
        return found
    if found.get("enginewatch_stamp") != FORM:
        return Unread(str(path), "is no stamp of a form that is known here", "stale")
    return Stamp(
        where=str(folder),
        made=text(found, "made"),
        engines=dict(_read_digests(at(found, "engines"))),
        model=text(found, "model", "path"),
        revision=text(found, "model", "revision"),
        files=dict(_read_digests(at(found, "model", "files"))),
        precision=dict(_texts(at(found, "precision"))),
        shapes=dict(_counts(at(found, "shapes"))),
        gpu=text(found, "gpu", "model"),
        capability=parse_capability(text(found, "gpu", "compute_capability")),
        versions=dict(_texts(at(found, "versions"))),
        command=text(found, "command"),
    )


def _read_digests(found: Any) -> Iterator[tuple[str, Digest]]:
    for name, one in found.items() if isinstance(found, dict) else ():
        size, quick = count_of(one, "size"), text(one, "sampled")
        # A name with a separator in it would leave the folder.
        if size is not None and quick and Path(name).name == name:
            yield name, Digest(size, quick, text(one, "whole"))


def _texts(found: Any) -> Iterator[tuple[str, str]]:
    for name, value in found.items() if isinstance(found, dict) else ():
        if isinstance(value, str):
            yield name, value


def _counts(found: Any) -> Iterator[tuple[str, int]]:
    for name, value in found.items() if isinstance(found, dict) else ():
        if type(value) is int:
            yield name, value
