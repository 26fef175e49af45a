"""`trtllm-serve MODEL …`, and the YAML that overrides its flags."""

from __future__ import annotations

from typing import Final

from enginewatch.preflight.readers.flags import FlagTable, Problem, Style, flag_table
from enginewatch.preflight.readers.launchers.base import (
    Read,
    Words,
    config_file,
    configured,
    positional_model,
    read_flags,
    stray,
)
from enginewatch.preflight.readers.yamldata import Tree

_STYLE: Final = Style(abbreviates=False)
_COMMANDS: Final = frozenset(
    {"serve", "disaggregated", "disaggregated_mpi_worker", "mm_embedding_serve", "grpc"}
)
_SPECULATIVE: Final = {
    "decoding_type": "speculative_method",
    "max_draft_len": "speculative_tokens",
    "num_nextn_predict_layers": "speculative_tokens",
    "speculative_model_dir": "draft_model",
    "speculative_model": "draft_model",
}


def read(words: Words) -> Read:
    """The YAML wins over the flags (`update_llm_args_with_extra_dict`), unlike vLLM's."""
    given = words.words
    if given and given[0].text in _COMMANDS:
        words = words._replace(words=given[1:])
    found, parsed = read_flags(words, _STYLE)
    stray(found, positional_model(found, parsed.positional, words.script), words.script)
    tree = config_file(found, words)
    if tree is not None:
        _keys(found, tree, str(found.settings["config_file"].value), flag_table("trtllm-yaml"), "")
    _speculative(found)
    return found


def _keys(found: Read, tree: Tree, file: str, table: FlagTable, under: str) -> None:
    for key, below in tree.items():
        name = f"{under}{key}"
        where = f"{file}:{below.line}"
        flag = table.by_name.get(name)
        if flag is None:
            if not under:
                near = table.nearest(name)
                found.problems.append(Problem("unknown_key", key, where, near=near))
            continue
        if flag.removed:
            found.problems.append(Problem("removed_key", key, where, flag.gone, flag.removed))
        if flag.sets and below.value is not None:
            found.settings[flag.sets] = configured(found, flag, name, below, where)
        if isinstance(below.value, dict):
            _keys(found, below, file, table, f"{name}.")


def _speculative(found: Read) -> None:
    given = found.settings.get("speculative")
    if given is not None and isinstance(given.value, dict):
        for key, setting in _SPECULATIVE.items():
            found.put(setting, given.value.get(key), given)
