"""An input that could not be read, or not in full."""

from __future__ import annotations

from typing import NamedTuple


class Unread(NamedTuple):
    """`check` is the name of the check that goes without it (`architecture`, `memory` …), or
    empty where all do; `what` says in a sentence what was found; `where` is a file or a flag."""

    where: str
    what: str
    check: str = ""


def not_read(failure: OSError) -> str:
    """Why a file could not be read, in the words of `Unread.what`."""
    return f"can't be read: {failure.strerror or failure}"
