"""Strict reading of YAML that people write: every fault found, each at its line and column.

A `Document` knows where each character of a scalar stood in the file, so that an
error inside a block scalar (an expression, a template) can point at the real
place. A `Reader` walks nodes and collects problems instead of stopping at the first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import yaml

from enginewatch.alerting.errors import RuleError
from enginewatch.model import Millis
from enginewatch.units import parse_duration
from enginewatch.yamltext import closest, compose, is_merge, is_null, pairs, place

_HEX_DIGITS: Final = {"x": 2, "u": 4, "U": 8}
"""How many hexadecimal digits follow each numeric escape of a double-quoted scalar."""


class Entry(NamedTuple):
    """One `key: value` of a mapping."""

    key: yaml.ScalarNode
    value: yaml.Node


def read_text(path: Path) -> str:
    """The text of a file. Raises RuleError when it can't be read or is not UTF-8."""
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as failure:
        raise RuleError(f"not UTF-8 at byte {failure.start}", where=str(path)) from None
    except OSError as failure:
        raise RuleError(f"can't be read: {failure.strerror}", where=str(path)) from None


class Document:
    """One YAML document and the text it was read from."""

    def __init__(self, text: str, path: str):
        """Raises RuleError when `text` is not YAML, or more than one document."""
        self.path = path
        self._text = text.removeprefix("\ufeff")
        self.root: Final = compose(self._text, path, RuleError)

    def where(self, node: yaml.Node, offset: int | None = None) -> str:
        """`file:line:column` of a node, or of a character of a scalar's value."""
        if offset is None or not isinstance(node, yaml.ScalarNode):
            return f"{self.path}:{node.start_mark.line + 1}:{node.start_mark.column + 1}"
        origins = list(_origins(node, self._text))
        return place(self._text, origins[min(offset, len(origins) - 1)], self.path)

    def where_in(self, node: yaml.Node, line: int, column: int) -> str:
        """As `where`, for a line and column (from 1) of a scalar's value; 0 if not known."""
        if line < 1 or not isinstance(node, yaml.ScalarNode):
            return self.where(node)
        lines = node.value.split("\n")
        before = sum(len(text) + 1 for text in lines[: line - 1])
        return self.where(node, before + column - 1)


def _origins(node: yaml.ScalarNode, text: str) -> Iterator[int]:
    """Where in `text` each character of the scalar's value came from, and one place past its end.

    Folding and indentation only ever change white space, so the two texts are
    walked side by side and meet again at every other character. Exact for these;
    an inserted blank is given the place of the break that it stands for.
    """
    at, end = node.start_mark.index, node.end_mark.index
    if node.style in ("|", ">"):
        at = text.index("\n", at, end) + 1 if "\n" in text[at:end] else end
    elif node.style in ("'", '"'):
        at, end = at + 1, end - 1
    for char in node.value:
        if not char.isspace():
            while at < end and text[at].isspace():
                at += 1
        if node.style == '"' and text.startswith("\\", at):
            at = _skip_continuations(text, at, end)
        yield min(at, end)
        at += _consumed(text, at, char, node.style)
    yield min(at, end)


def _skip_continuations(text: str, at: int, end: int) -> int:
    """Past any escaped line breaks: they stand for nothing in a double-quoted scalar."""
    while text.startswith(("\\\n", "\\\r"), at):
        at += 1
        while at < end and text[at].isspace():
            at += 1
    return at


def _consumed(text: str, at: int, char: str, style: str | None) -> int:
    """How many characters of `text` were written for the value's `char`."""
    if style == '"' and text.startswith("\\", at):
        return 2 + _HEX_DIGITS.get(text[at + 1], 0)
    if style == "'" and text.startswith("''", at):
        return 2
    return 1 if text.startswith(char, at) else 0


class Reader:
    """Reads nodes as what they should be; what they are not goes to `problems`."""

    def __init__(self, document: Document):
        self.document = document
        self.problems: list[RuleError] = []

    def problem(self, what: str, node: yaml.Node, *, hint: str = "") -> None:
        self.problems.append(RuleError(what, where=self.document.where(node), hint=hint))

    def mapping(
        self, node: yaml.Node, what: str, known: Collection[str] | None = None
    ) -> dict[str, Entry]:
        """The entries by key; keys outside `known` and repeated keys are problems.

        `what` names the mapping in messages: `group "x"`.
        """
        if is_null(node):
            return {}
        if not isinstance(node, yaml.MappingNode):
            self.problem(f"{what} must be a mapping of keys to values, not {_kind(node)}", node)
            return {}
        entries: dict[str, Entry] = {}
        for key, value in pairs(node):
            if is_merge(key):
                self.problem(f"{what}: << must name a mapping", value)
            elif not isinstance(key, yaml.ScalarNode):
                self.problem(f"{what}: a key must be a word, not {_kind(key)}", key)
            elif known is not None and key.value not in known:
                hint = closest(key.value, known)
                self.problem(f"{what}: unknown key {key.value!r}", key, hint=hint)
            elif key.value in entries:
                line = entries[key.value].key.start_mark.line + 1
                self.problem(f"{what}: key {key.value!r} is already given in line {line}", key)
            else:
                entries[key.value] = Entry(key, value)
        return entries

    def sequence(self, node: yaml.Node, what: str) -> list[yaml.Node]:
        if is_null(node):
            return []
        if not isinstance(node, yaml.SequenceNode):
            self.problem(f"{what} must be a list, not {_kind(node)}", node)
            return []
        return list(node.value)

    def text(self, node: yaml.Node, what: str) -> str | None:
        """Any scalar as it is written: `1` and `yes` are texts too, as in Prometheus."""
        if not isinstance(node, yaml.ScalarNode):
            self.problem(f"{what} must be a text, not {_kind(node)}", node)
            return None
        return written(node)

    def duration(self, node: yaml.Node, what: str) -> Millis:
        text = self.text(node, what)
        try:
            return parse_duration(text) if text is not None else 0
        except ValueError as failure:
            self.problem(f"{what}: {failure}", node)
            return 0

    def count(self, node: yaml.Node, what: str) -> int:
        text = self.text(node, what)
        if text is None:
            return 0
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            self.problem(f"{what} must be a whole number, 0 or more, not {text!r}", node)
            return 0
        return int(text)


def written(node: yaml.Node) -> str:
    """The text of a node that is known to be a scalar; null is the empty text."""
    return "" if is_null(node) else str(node.value)


def _kind(node: yaml.Node) -> str:
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    return "a list" if isinstance(node, yaml.SequenceNode) else f"{node.value!r}"
