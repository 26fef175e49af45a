"""YAML of other programs as plain data that knows its lines: anchors are fine, own tags refused.

What is read is bounded: a few lines of nested anchors can stand for billions of values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import yaml

from enginewatch.errors import EnginewatchError
from enginewatch.yamltext import compose_all, is_merge, pairs

Scalar = str | int | float | bool | None

_TAG: Final = "tag:yaml.org,2002:"
_KNOWN: Final = frozenset(
    {"str", "int", "float", "bool", "null", "map", "seq", "timestamp", "merge"}
)
_MOST: Final = 200_000
_DEEPEST: Final = 100
_TRUE: Final = frozenset({"true", "yes", "on", "y"})


class YamlDataError(EnginewatchError):
    """Not YAML, or YAML that asks a program to build objects, or to unfold without end."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A value and the line where it stands, from 1."""

    value: Scalar | dict[str, Tree] | list[Tree]
    line: int

    def at(self, *path: str | int) -> Tree:
        """What stands below; a tree of None where nothing does."""
        tree = self
        for key in path:
            below: Tree | None = None
            if isinstance(tree.value, dict):
                below = tree.value.get(str(key))
            elif isinstance(tree.value, list) and isinstance(key, int) and key < len(tree.value):
                below = tree.value[key]
            if below is None:
                return Tree(None, tree.line)
            tree = below
        return tree

    def items(self) -> Iterator[tuple[str, Tree]]:
        """Of a mapping; nothing of anything else."""
        if isinstance(self.value, dict):
            yield from self.value.items()

    def each(self) -> list[Tree]:
        """Of a list; nothing of anything else."""
        return self.value if isinstance(self.value, list) else []

    def below(self) -> Iterator[Tree]:
        """What a mapping or a list holds."""
        yield from self.value.values() if isinstance(self.value, dict) else self.each()

    def text(self) -> str:
        """A scalar as text, empty for anything else."""
        if isinstance(self.value, bool):
            return "true" if self.value else "false"
        return str(self.value) if isinstance(self.value, str | int | float) else ""

    def number(self) -> float | None:
        """A scalar as a number, also one in quotes; None for anything else."""
        if isinstance(self.value, bool):
            return None
        try:
            return float(self.value) if isinstance(self.value, str | int | float) else None
        except ValueError:
            return None

    def plain(self) -> object:
        """As dictionaries, lists and scalars."""
        if isinstance(self.value, dict):
            return {key: tree.plain() for key, tree in self.value.items()}
        if isinstance(self.value, list):
            return [tree.plain() for tree in self.value]
        return self.value

    def __bool__(self) -> bool:
        return self.value not in (None, "", {}, [])


def read_yaml(text: str, file: str, *, first_line: int = 1) -> list[Tree]:
    """The documents of a text. Raises YamlDataError, with the place in `file`."""
    roots = compose_all(text, file, YamlDataError)
    builder = _Builder(file, first_line)
    return [builder.tree(root, 0) for root in roots]


class _Builder:
    def __init__(self, file: str, first_line: int):
        self.file = file
        self.first_line = first_line
        self.left = _MOST

    def tree(self, node: yaml.Node, depth: int) -> Tree:
        line = node.start_mark.line + self.first_line
        self.left -= 1
        if self.left < 0 or depth > _DEEPEST:
            raise YamlDataError("its anchors unfold to too much", where=f"{self.file}:{line}")
        if not node.tag.startswith(_TAG) or node.tag.removeprefix(_TAG) not in _KNOWN:
            raise YamlDataError(
                f"the tag {node.tag.removeprefix(_TAG)} is not read",
                where=f"{self.file}:{line}",
                hint="plain YAML has no tags; render templates and secrets first",
            )
        if isinstance(node, yaml.MappingNode):
            return Tree(self._mapping(node, depth), line)
        if isinstance(node, yaml.SequenceNode):
            return Tree([self.tree(each, depth + 1) for each in node.value], line)
        return Tree(_scalar(node), line)

    def _mapping(self, node: yaml.MappingNode, depth: int) -> dict[str, Tree]:
        found: dict[str, Tree] = {}
        for key, value in pairs(node):
            if not isinstance(key, yaml.ScalarNode):
                line = key.start_mark.line + self.first_line
                raise YamlDataError("a key is no word", where=f"{self.file}:{line}")
            if not is_merge(key):
                found[str(key.value)] = self.tree(value, depth + 1)
        return found


def _scalar(node: yaml.Node) -> Scalar:
    kind, text = node.tag.removeprefix(_TAG), str(node.value)
    try:
        if kind == "int":
            return int(text.replace("_", ""), 0) if not text.startswith("0") else _octal(text)
        if kind == "float":
            return float(text.replace("_", ""))
    except ValueError:
        return text
    if kind == "bool":
        return text.lower() in _TRUE
    return None if kind == "null" else text


def _octal(text: str) -> int | str:
    plain = text.lower().replace("_", "")
    if plain.startswith(("0x", "0b", "0o")):
        return int(plain, 0)
    return int(plain, 8) if len(plain) > 1 and plain.isdigit() and "8" not in plain else int(plain)
