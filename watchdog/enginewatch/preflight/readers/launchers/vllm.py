"""`vllm serve MODEL …` and `python -m vllm.entrypoints.openai.api_server --model …`."""

from __future__ import annotations

from typing import Final

from enginewatch.preflight.readers.flags import Problem, Style
from enginewatch.preflight.readers.launchers.base import (
    SPECULATIVE_KEYS,
    Read,
    Words,
    config_file,
    configured,
    integer_setting,
    positional_model,
    read_flags,
    speculative,
    stray,
)

_STYLE: Final = Style(dashes=True, negates=True, dotted=True)
_SPECULATIVE: Final = frozenset(
    {*SPECULATIVE_KEYS, "draft_load_config", "revision", "code_revision", "enforce_eager",
     "disable_by_batch_size", "disable_padded_drafter_batch", "prompt_lookup_max",
     "prompt_lookup_min", "speculative_token_tree", "parallel_drafting",
     "rejection_sample_method", "use_heterogeneous_vocab",
     "num_speculative_tokens_per_batch_size", "suffix_decoding_max_tree_depth",
     "suffix_decoding_max_cached_requests", "suffix_decoding_max_spec_factor",
     "suffix_decoding_min_token_prob", "attention_backend", "moe_backend",
     "synthetic_acceptance_rate", "draft_sample_method", "kv_cache_dtype",
     "acceptance_method", "posterior_threshold", "posterior_alpha", "disable_logprobs",
     "disable_mqa_scorer", "load_config", "tensor_parallel_size", "enable_adaptive_verification",
     "index_share_for_mtp_iteration", "disable_eagle_block_drop", "use_local_argmax_reduction",
     "synthetic_acceptance_rates", "synthetic_acceptance_length", "dspark_draft_topk"}
)  # fmt: skip


def read(words: Words) -> Read:
    found, parsed = read_flags(words, _STYLE)
    positional = list(parsed.positional)
    if "model" not in found.settings:
        positional = positional_model(found, positional, words.script)
    stray(found, positional, words.script)
    _configured(found, words)
    integer_setting(found, "max_model_len")
    speculative(found, _SPECULATIVE, SPECULATIVE_KEYS)
    return found


def _configured(found: Read, words: Words) -> None:
    """`--config FILE`: keys are flags without their dashes, and flags win over them."""
    tree = config_file(found, words)
    if tree is None:
        return
    file = str(found.settings["config_file"].value)
    for key, below in tree.items():
        name = "--" + key.replace("_", "-")
        flag = words.table.by_name.get(name)
        where = f"{file}:{below.line}"
        if flag is None:
            near = words.table.nearest(name).removeprefix("--")
            found.problems.append(Problem("unknown_key", key, where, near=near))
            continue
        if flag.removed:
            found.problems.append(Problem("removed_flag", name, where, flag.gone, flag.removed))
        if flag.name not in found.flags and below.value is not None:
            given = configured(found, flag, key, below, where)
            found.flags[flag.name] = given
            if flag.sets:
                found.settings.setdefault(flag.sets, given)
