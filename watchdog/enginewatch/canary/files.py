"""Files of JSON lines that others wrote, read with bounds and with names for their places."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from enginewatch.canary.errors import CanaryError

_LONGEST_LINE: Final = 16 * 1024 * 1024
_LARGEST: Final = 256 * 1024 * 1024


def text_of(path: Path) -> str:
    """The whole of a file that is read at once. Raises CanaryError."""
    try:
        if path.stat().st_size > _LARGEST:
            raise CanaryError(f"over {_LARGEST >> 20} MiB", where=str(path))
        return path.read_text(encoding="utf-8")
    except OSError as failure:
        raise CanaryError(f"can't be read: {failure.strerror}", where=str(path)) from None
    except UnicodeDecodeError:
        raise CanaryError("not UTF-8", where=str(path)) from None


def lines(path: Path) -> Iterator[tuple[str, str]]:
    """The lines that are not blank, each with its `file:line`; the file may be larger than
    memory. Raises CanaryError."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            number = 0
            while line := file.readline(_LONGEST_LINE):
                number += 1
                if len(line) >= _LONGEST_LINE:
                    where = f"{path}:{number}"
                    raise CanaryError(f"a line of over {_LONGEST_LINE} characters", where=where)
                if line.strip():
                    yield f"{path}:{number}", line
    except OSError as failure:
        raise CanaryError(f"can't be read: {failure.strerror}", where=str(path)) from None
    except UnicodeDecodeError:
        raise CanaryError("not UTF-8", where=str(path)) from None


def json_value(text: str, where: str) -> Any:
    """What the JSON says. Raises CanaryError."""
    try:
        return json.loads(text)
    except ValueError as failure:
        raise CanaryError(f"not JSON: {failure}", where=where) from None
    except RecursionError:
        raise CanaryError("not JSON: nested too deeply", where=where) from None
