"""`python -m sglang.launch_server --model-path …`."""

from __future__ import annotations

from typing import Final

from enginewatch.preflight.readers.flags import Problem, Style
from enginewatch.preflight.readers.launchers.base import (
    Read,
    Words,
    config_file,
    configured,
    read_flags,
    stray,
)

_STYLE: Final = Style()


def read(words: Words) -> Read:
    found, parsed = read_flags(words, _STYLE)
    stray(found, parsed.positional, words.script)
    tree = config_file(found, words)
    if tree is not None:
        file = str(found.settings["config_file"].value)
        for key, below in tree.items():
            name = "--" + key.replace("_", "-")
            flag = words.table.by_name.get(name)
            where = f"{file}:{below.line}"
            if flag is None:
                near = words.table.nearest(name).removeprefix("--")
                found.problems.append(Problem("unknown_key", key, where, near=near))
            elif flag.sets and below.value is not None:
                given = configured(found, flag, key, below, where)
                found.settings.setdefault(flag.sets, given)
    _speculative(found)
    return found


def _speculative(found: Read) -> None:
    """A step verifies `--speculative-num-draft-tokens` tokens a request, the one that is sure
    among them; without that flag, a chain of the steps."""
    draft = found.settings.get("speculative_draft_tokens")
    if draft is not None and isinstance(draft.value, int) and draft.value > 1:
        found.put("speculative_tokens", draft.value - 1, draft)
