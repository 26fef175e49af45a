"""Nodes of signature files as typed values; what they are not goes to `problems` with its place."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from typing import Final, TypeVar

import yaml

from enginewatch.alerting.yamlnodes import Entry, Reader
from enginewatch.evidence.expressions import Expression, ExpressionError, parse
from enginewatch.evidence.fields import Value
from enginewatch.evidence.patterns import Pattern
from enginewatch.model import Millis
from enginewatch.units import parse_duration
from enginewatch.yamltext import closest

Choice = TypeVar("Choice", bound=StrEnum)

_TAG: Final = "tag:yaml.org,2002:"
_BOOL: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}

_CONSTANTS: Final[Mapping[str, Callable[[str], Value]]] = {
    "null": lambda _: None,
    "bool": lambda text: _BOOL[text.lower()],
    "int": lambda text: int(text, 0),
    "float": float,
}


class ValueReader(Reader):
    """A `Reader` for what signatures are made of: choices, names, patterns, expressions."""

    def choice(self, node: yaml.Node, kinds: type[Choice], what: str) -> Choice | None:
        text = self.text(node, what)
        if text is None:
            return None
        try:
            return kinds(text)
        except ValueError:
            hint = f"one of {', '.join(kinds)}"
            self.problem(f"{what}: {text!r} is none of the known ones", node, hint=hint)
            return None

    def choice_of(
        self, given: dict[str, Entry], key: str, kinds: type[Choice], what: str
    ) -> Choice | None:
        """The choice under `key`, None where it is not given."""
        return self.choice(given[key].value, kinds, f"{what}: {key}") if key in given else None

    def text_of(self, given: dict[str, Entry], key: str, what: str) -> str:
        """The text under `key`, empty where there is none."""
        return (self.text(given[key].value, f"{what}: {key}") or "") if key in given else ""

    def required(self, given: dict[str, Entry], key: str, what: str, node: yaml.Node) -> str:
        text = self.text_of(given, key, what)
        if not text:
            self.problem(f"{what} has no {key!r}", node)
        return text

    def names(self, entry: Entry | None, what: str) -> tuple[str, ...]:
        """A text, or a list of them."""
        if entry is None:
            return ()
        nodes = entry.value.value if isinstance(entry.value, yaml.SequenceNode) else [entry.value]
        found = (self.text(node, what) for node in nodes)
        return tuple(name for name in found if name)

    def known(self, node: yaml.Node, name: str, known: Collection[str], what: str) -> bool:
        if name in known:
            return True
        self.problem(f"{what}: {name!r} is not known", node, hint=closest(name, known))
        return False

    def span(self, node: yaml.Node, what: str) -> Millis | None:
        """A duration, or None for the word `any`."""
        text = self.text(node, what)
        if text is None or text == "any":
            return None
        try:
            return parse_duration(text)
        except ValueError as failure:
            self.problem(f"{what}: {failure}", node, hint="or the word any")
            return None

    def flag(self, node: yaml.Node, what: str) -> bool:
        if isinstance(node, yaml.ScalarNode) and node.tag == f"{_TAG}bool":
            return _BOOL[node.value.lower()]
        self.problem(f"{what} must be true or false", node)
        return False

    def pattern(self, node: yaml.Node, what: str) -> Pattern | None:
        """A compiled pattern, or None and a problem at the place that RE2 complains about."""
        text = self.text(node, what)
        if not text:
            self.problem(f"{what} is empty", node)
            return None
        try:
            return Pattern(text)
        except ValueError as failure:
            reason = str(failure)
            # RE2 gives no position, but ends with the piece of the pattern it means.
            piece = reason.rpartition(": ")[2]
            hint = "RE2 has no look-around and no back-references"
            self.problem_at(f"{what}: {reason}", node, max(text.find(piece), 0), hint=hint)
            return None

    def expression(
        self, node: yaml.Node, what: str, functions: Collection[str]
    ) -> Expression | None:
        text = self.text(node, what)
        if text is None:
            return None
        skip = 1 if text.startswith("=") else 0
        try:
            found = parse(text[skip:])
        except ExpressionError as failure:
            self.problem_at(f"{what}: {failure}", node, skip + failure.offset)
            return None
        for name in sorted(found.calls):
            self.known(node, name, functions, f"{what}: function")
        return found

    def constant(self, node: yaml.Node, what: str) -> Value:
        """A scalar by its YAML type; a list of scalars as a list."""
        if isinstance(node, yaml.SequenceNode):
            return [self.constant(item, what) for item in node.value]
        if not isinstance(node, yaml.ScalarNode):
            self.problem(f"{what} must be a plain value", node)
            return None
        convert = _CONSTANTS.get(node.tag.removeprefix(_TAG), str)
        try:
            return convert(node.value)
        except ValueError:
            return str(node.value)

    def constants(self, entry: Entry | None, what: str) -> dict[str, Value]:
        if entry is None:
            return {}
        given = self.mapping(entry.value, what)
        return {name: self.constant(each.value, f"{what}: {name}") for name, each in given.items()}

    def problem_at(self, what: str, node: yaml.Node, offset: int, *, hint: str = "") -> None:
        """A problem at a character of a scalar's value."""
        self.problem(what, node, hint=hint)
        self.problems[-1].where = self.document.where(node, offset)
