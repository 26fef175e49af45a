"""Command-line words against a launcher's table of flags (`rules/compat/flags/`).

The tables say which flags there are, what they take, which setting they mean and
in which versions they exist. A word that no table knows is a problem with the
nearest known one, never silently dropped.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, NamedTuple

from enginewatch.evidence.tables import load_table
from enginewatch.preflight.readers.shell import Word
from enginewatch.rulepack import rules_path

Json = dict[str, Any] | list[Any] | str | int | float | bool | None

_TRUE: Final = frozenset({"true", "1", "yes", "on", "enable"})
_FALSE: Final = frozenset({"false", "0", "no", "off", "disable"})
_DASHES: Final = ("—", "–", "−", "‐")
_QUOTES: Final = frozenset("“”‘’„")
_MULTIPLES: Final = {
    **{unit: 10 ** (3 * power) for power, unit in enumerate("kmgt", 1)},
    **{unit: 2 ** (10 * power) for power, unit in enumerate("KMGT", 1)},
}


class Flag(NamedTuple):
    """A row of a table. `takes` is `none`, `one`, `optional` or `many` values.

    `removed` is the first version that does not have it; `gone` what to write instead.
    """

    name: str
    takes: str
    type: str
    sets: str
    aliases: tuple[str, ...]
    since: str
    removed: str
    gone: str


class Given(NamedTuple):
    """A setting's value, where it was given and by which flag, key or variable."""

    value: Json
    where: str
    by: str


class Problem(NamedTuple):
    """What is wrong with a command before anything of it is judged.

    `kind` is one of `rules/preflight/launch.yml`'s; `near` what was probably meant.
    """

    kind: str
    text: str
    where: str
    near: str = ""
    detail: str = ""


class FlagTable(NamedTuple):
    """The flags of a launcher, or the keys of its configuration."""

    name: str
    by_name: Mapping[str, Flag]
    """By each name and alias, as written."""

    def nearest(self, name: str) -> str:
        """What was probably meant; empty where nothing is like it."""
        live = [each for each, flag in self.by_name.items() if not flag.removed]
        near = difflib.get_close_matches(name, live, n=1, cutoff=0.75)
        return near[0] if near else ""


@cache
def flag_table(name: str) -> FlagTable:
    """The flags of a launcher. Raises SignatureError where its table can't be read."""
    table = load_table(rules_path() / "compat" / "flags" / f"{name}.yml")
    by_name: dict[str, Flag] = {}
    for row in table.rows.values():
        text = {key: str(value) for key, value in row.items() if value is not None}
        flag = Flag(
            text["name"],
            text.get("takes", "one"),
            text.get("type", "string"),
            text.get("sets", ""),
            tuple(text.get("alias", "").split()),
            text.get("since", ""),
            text.get("removed", ""),
            text.get("instead", ""),
        )
        for each in (flag.name, *flag.aliases):
            by_name[each] = flag
    return FlagTable(name, by_name)


class Style(NamedTuple):
    """How a launcher's parser reads words.

    `dashes`: `_` and `-` are the same in names (vLLM). `negates`: `--no-x` sets a switch to
    false. `abbreviates`: a unique beginning of a name will do (argparse). `dotted`: a JSON
    flag may be given by its keys, `--x.key value` (vLLM).
    """

    dashes: bool = False
    negates: bool = False
    abbreviates: bool = True
    dotted: bool = False


@dataclass(slots=True)
class Parsed:
    """`flags` are all that were given, by the name in the table; the last of several wins."""

    flags: dict[str, tuple[Flag, Given]] = field(default_factory=dict)
    positional: list[Word] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def settings(self) -> dict[str, Given]:
        """By the setting that a flag means, for those that mean one."""
        return {flag.sets: given for flag, given in self.flags.values() if flag.sets}


def parse(words: Sequence[Word], table: FlagTable, style: Style, script: str) -> Parsed:
    """The flags among `words`, behind the program's name; places are `script:line`."""
    return _Parser(list(words), table, style, script).run()


@dataclass(slots=True)
class _Parser:
    words: list[Word]
    table: FlagTable
    style: Style
    script: str
    at: int = 0
    parsed: Parsed = field(default_factory=Parsed)

    def run(self) -> Parsed:
        while self.at < len(self.words):
            word = self.words[self.at]
            self.at += 1
            if word.text.startswith(_DASHES):
                fixed = "--" + word.text.lstrip("".join(_DASHES) + "-")
                self.problem("typographic_dash", word, word.text, near=fixed.partition("=")[0])
                word = word._replace(text=fixed)
            if word.text.startswith("-") and not _is_number(word.text) and word.text != "-":
                self._flag(word)
            else:
                self.parsed.positional.append(word)
        return self.parsed

    def problem(self, kind: str, word: Word, text: str, near: str = "", detail: str = "") -> None:
        where = f"{self.script}:{word.line}" if word.line else self.script
        self.parsed.problems.append(Problem(kind, text, where, near, detail))

    def _flag(self, word: Word) -> None:
        name, equals, inline = word.text.partition("=")
        found, value, path = self._lookup(name)
        if found is None:
            self.problem("unknown_flag", word, name, near=self._nearest(name))
            self._skip(bool(equals))
            return
        if found.removed:
            self.problem("removed_flag", word, name, near=found.gone, detail=found.removed)
        given: Json
        if value is not None:
            given = value
        elif found.takes == "none":
            given = inline.lower() not in _FALSE if equals else True
        elif equals:
            given = self._convert(found, [word._replace(text=inline, raw=_raw_value(word))], path)
        else:
            given = self._convert(found, self._values(found, word), path)
        where = f"{self.script}:{word.line}" if word.line else self.script
        if path and isinstance(before := self._before(found), dict):
            given = {**before, path: given}
        elif path:
            given = {path: given}
        self.parsed.flags[found.name] = (found, Given(given, where, name))

    def _before(self, flag: Flag) -> Json:
        known = self.parsed.flags.get(flag.name)
        return known[1].value if known else None

    def _lookup(self, name: str) -> tuple[Flag | None, bool | None, str]:
        """The flag, the value that the name alone gives (`--no-x`), and the key behind a dot."""
        plain = _dashed(name) if self.style.dashes else name
        names = self.table.by_name
        if plain in names:
            return names[plain], None, ""
        if self.style.dotted and "." in plain:
            head, _, path = name.partition(".")
            flag = names.get(_dashed(head))
            return flag, None, path if flag else ""
        if self.style.negates and plain.startswith("--no-") and f"--{plain[5:]}" in names:
            return names[f"--{plain[5:]}"], False, ""
        if self.style.abbreviates and plain.startswith("--") and len(plain) > 4:
            begins = {names[each].name for each in names if each.startswith(plain)}
            if len(begins) == 1:
                return names[begins.pop()], None, ""
        return None, None, ""

    def _nearest(self, name: str) -> str:
        return self.table.nearest(_dashed(name) if self.style.dashes else name)

    def _skip(self, inline: bool) -> None:
        """Past what is probably the value of a flag that is not known."""
        if not inline and self.at < len(self.words) and not self._is_flag(self.words[self.at]):
            self.at += 1

    def _is_flag(self, word: Word) -> bool:
        return word.text.startswith(("-", *_DASHES)) and not _is_number(word.text)

    def _values(self, flag: Flag, word: Word) -> list[Word]:
        values: list[Word] = []
        while self.at < len(self.words) and not self._is_flag(self.words[self.at]):
            values.append(self.words[self.at])
            self.at += 1
            if flag.takes != "many":
                break
        if not values and flag.takes == "one":
            self.problem("value_missing", word, flag.name)
        return values

    def _convert(self, flag: Flag, values: list[Word], path: str) -> Json:
        if not values:
            return True if flag.takes == "optional" else None
        word = values[0]
        if any(mark in word.text for mark in _QUOTES):
            self.problem("typographic_quote", word, flag.name, detail=word.text[:80])
        if not word.known:
            self.problem("value_unknown", word, flag.name, detail=word.text)
            return None
        if flag.type == "json" and not path:
            return self._json(flag, word)
        if flag.takes == "many":
            return [value.text for value in values]
        kind = "auto" if path else flag.type
        try:
            return _typed(kind, word.text)
        except (ValueError, OverflowError):
            self.problem("value_type", word, flag.name, detail=f"{word.text} is no {kind}")
            return None

    def _json(self, flag: Flag, word: Word) -> Json:
        text = word.text
        if word.raw.startswith("{") and not _loads(text)[1]:
            return self._unquoted(flag, word)
        value, good = _loads(text)
        if good:
            return value
        if text[:1] in {"{", "["} or "{" in word.raw:
            hint = f"{flag.name} '{_repaired(text)}'"
            self.problem("json_invalid", word, flag.name, near=hint, detail=text[:120])
            return None
        return text

    def _unquoted(self, flag: Flag, word: Word) -> Json:
        """JSON whose quotes the shell took away: read it as it was meant, and say so."""
        raws = [word.raw]
        while _depth(" ".join(raws)) > 0 and self.at < len(self.words):
            raws.append(self.words[self.at].raw)
            self.at += 1
        meant = " ".join(raws)
        value, good = _loads(meant)
        self.problem("json_unquoted", word, flag.name, near=f"{flag.name} '{meant}'", detail=meant)
        return value if good else None


def _loads(text: str) -> tuple[Json, bool]:
    try:
        return json.loads(text), True
    except (ValueError, RecursionError):
        return None, False


def _repaired(text: str) -> str:
    """The JSON that was probably meant, where single quotes stood for double ones."""
    swapped = text.replace("'", '"')
    return swapped if _loads(swapped)[1] else '{"key": "value"}'


def _depth(text: str) -> int:
    return text.count("{") - text.count("}")


def _raw_value(word: Word) -> str:
    return word.raw.partition("=")[2]


def _dashed(name: str) -> str:
    return name if not name.startswith("--") else "--" + name[2:].replace("_", "-")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _typed(kind: str, text: str) -> Json:
    """A value by the type of its flag. Raises ValueError."""
    if kind == "int":
        return _integer(text)
    if kind == "float":
        return float(text)
    if kind == "bool":
        if text.lower() in _TRUE | _FALSE:
            return text.lower() in _TRUE
        raise ValueError(text)
    if kind == "auto":
        value, good = _loads(text)
        return value if good else text
    return text


def _integer(text: str) -> int:
    """A whole number, also as vLLM writes large ones: `8k` is 8000, `8K` is 8192, `-1`."""
    if text[-1:] in _MULTIPLES:
        return int(float(text[:-1]) * _MULTIPLES[text[-1]])
    return int(text)


def as_integer(text: str) -> int | None:
    """As a flag of type int takes it, None where it is none (`auto`)."""
    try:
        return _integer(text)
    except (ValueError, OverflowError):
        return None


def typed(kind: str, value: object) -> Json:
    """A value out of YAML by the type of its flag. Raises ValueError for one of another type."""
    if isinstance(value, str):
        try:
            return _typed("auto" if kind == "json" else kind, value)
        except OverflowError:
            raise ValueError(value) from None
    numbers = {"int": (int,), "float": (int, float)}.get(kind)
    if numbers and (isinstance(value, bool) or not isinstance(value, numbers)):
        raise ValueError(value)
    return value if isinstance(value, dict | list | int | float | bool) else None
