"""What launchers' readers get and give, and the steps that several of them share."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from enginewatch.preflight.readers.flags import (
    Flag,
    FlagTable,
    Given,
    Json,
    Parsed,
    Problem,
    Style,
    as_integer,
    parse,
    typed,
)
from enginewatch.preflight.readers.shell import Word
from enginewatch.preflight.readers.workload import is_template
from enginewatch.preflight.readers.yamldata import Tree, YamlDataError, read_yaml
from enginewatch.yamltext import closest

_EXPANDED: Final = re.compile(r"\$\{?[A-Za-z_]")

Files = Callable[[str], str | None]
"""The text of a file that a command names, None where it can't be had."""


class Words(NamedTuple):
    """A launcher's arguments, its table of flags, and what is around them."""

    words: tuple[Word, ...]
    table: FlagTable
    script: str
    env: Mapping[str, Word]
    files: Files


@dataclass(slots=True)
class Read:
    """What a launcher's words come to: settings by our names, flags by the launcher's."""

    settings: dict[str, Given] = field(default_factory=dict)
    flags: dict[str, Given] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def put(self, name: str, value: Json, given: Given) -> None:
        """A setting that follows from another one, which stays its source."""
        if value is not None:
            self.settings[name] = given._replace(value=value)


def read_flags(words: Words, style: Style) -> tuple[Read, Parsed]:
    """Flags and settings as they stand; positional words are left to the launcher."""
    parsed = parse(words.words, words.table, style, words.script)
    flags = {name: given for name, (_, given) in parsed.flags.items()}
    return Read(parsed.settings(), flags, list(parsed.problems)), parsed


def stray(read: Read, words: list[Word], script: str) -> None:
    """Words that belong to no flag: left over from a value with a blank in it, or a lost dash; or
    flags that come from outside (`"$@"`), which nobody here can judge."""
    for word in words:
        kind = "stray_word" if word.known else "words_unknown"
        read.problems.append(Problem(kind, word.text, f"{script}:{word.line}"))


def positional_model(read: Read, words: list[Word], script: str) -> list[Word]:
    """The model, where it is the first word without a flag; the words that are left."""
    if not words:
        return words
    first, where = words[0], f"{script}:{words[0].line}"
    if not first.known:
        read.problems.append(Problem("value_unknown", "MODEL", where, detail=first.text))
    read.settings["model"] = Given(first.text if first.known else None, where, "MODEL")
    return words[1:]


def config_file(read: Read, words: Words) -> Tree | None:
    """The configuration file that a command names. One that is not here is a problem of its own."""
    given = read.settings.get("config_file")
    if given is None or not isinstance(given.value, str):
        return None
    text = words.files(given.value)
    if text is None:
        read.problems.append(Problem("config_missing", given.value, given.where))
        return None
    try:
        documents = read_yaml(text, given.value)
    except YamlDataError as failure:
        read.problems.append(
            Problem("config_invalid", given.value, failure.where, detail=failure.what)
        )
        return None
    if not documents:
        return None
    if not isinstance(documents[0].value, dict):
        read.problems.append(
            Problem("config_invalid", given.value, given.where, detail="no keys and values")
        )
        return None
    return documents[0]


def configured(read: Read, flag: Flag, key: str, below: Tree, where: str) -> Given:
    """A value of a configuration file by the type of its flag.

    One of another type is a problem, and so is one that a variable or a template stands for: no
    launcher expands them, so that another program writes the file anew.
    """
    value = below.plain()
    if isinstance(value, str) and (_EXPANDED.search(value) or is_template(value)):
        read.problems.append(Problem("value_unknown", key, where, detail=value))
        return Given(None, where, key)
    try:
        return Given(typed(flag.type, value), where, key)
    except ValueError:
        detail = f"{below.text() or 'a list or a mapping'} is no {flag.type}"
        read.problems.append(Problem("value_type", key, where, detail=detail))
        return Given(None, where, key)


SPECULATIVE_KEYS = {
    "method": "speculative_method",
    "model": "draft_model",
    "num_speculative_tokens": "speculative_tokens",
    "draft_tensor_parallel_size": "draft_tensor_parallel",
    "quantization": "draft_quantization",
    "max_model_len": "draft_max_model_len",
}
"""Keys of vLLM's `--speculative-config` that mean a setting."""


def speculative(read: Read, known: frozenset[str], keys: Mapping[str, str]) -> None:
    """The settings inside a `speculative` mapping; keys that are not known are problems."""
    given = read.settings.get("speculative")
    if given is None or not isinstance(given.value, dict):
        return
    for key, value in given.value.items():
        if key in keys:
            read.put(keys[key], value, given)
        elif key.split(".")[0] not in known:
            near = closest(key, known)
            read.problems.append(Problem("unknown_key", key, given.where, near=_word(near)))


def _word(hint: str) -> str:
    return hint.split("'")[1] if hint.startswith("did you mean") else ""


def integer_setting(read: Read, name: str) -> None:
    """A setting that may be written as `8k` or `auto`: as a number, or not at all."""
    given = read.settings.get(name)
    if given is None or given.value is None or isinstance(given.value, int):
        return
    value = as_integer(str(given.value))
    if value is None or value <= 0:
        del read.settings[name]
    else:
        read.settings[name] = given._replace(value=value)
