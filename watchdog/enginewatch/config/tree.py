"""YAML as plain data in which every value still knows its line.

Scalars stay the text that was written, so that a label `rank: 0` is "0" and `"on"`
is no truth value; whoever knows the type converts. Reading is bounded: no tags,
no repeated keys, no documents that unfold to many times their size.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from enginewatch.config.errors import ConfigError
from enginewatch.yamltext import compose, is_merge, is_null, pairs

Steps = tuple[str | int, ...]
"""The way to a value: keys of mappings and indexes of lists, from the root."""

_MOST_NODES: Final = 500_000
_DEEPEST: Final = 50
_KNOWN_TAGS: Final = frozenset(
    f"tag:yaml.org,2002:{kind}"
    for kind in ("str", "int", "float", "bool", "null", "timestamp", "value", "map", "seq")
)


@dataclass
class Tree:
    """A document: its data, and the line on which each value, or its key, stands."""

    file: str
    data: Any = None
    _lines: dict[Steps, int] = field(default_factory=dict)
    _nodes: int = 0

    def where(self, path: Steps) -> str:
        """`file:line: key` of a value, or of the nearest thing around it that is written."""
        key = dotted(path)
        place = f"{self.file}:{self.line(path)}"
        return f"{place}: {key}" if key else place

    def line(self, path: Steps) -> int:
        """The line of a value, or of the nearest thing around it that is written."""
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path, 1)

    def fill(self, node: yaml.Node, path: Steps = ()) -> Any:
        self._nodes += 1
        if self._nodes > _MOST_NODES:
            raise self.error(f"the file unfolds to more than {_MOST_NODES} values", node)
        if len(path) > _DEEPEST:
            raise self.error("nested too deeply, or in itself", node)
        if node.tag not in _KNOWN_TAGS:
            raise self.error(f"tag {node.tag!r} is not supported", node, hint="leave it out")
        self._lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.fill(item, (*path, index)) for index, item in enumerate(node.value)]
        return None if is_null(node) else str(node.value)

    def _mapping(self, node: yaml.MappingNode, path: Steps) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key, value in pairs(node):
            if is_merge(key):
                raise self.error("<< must name a mapping", value)
            if not isinstance(key, yaml.ScalarNode):
                raise self.error("a key must be a word", key)
            if key.value in data:
                first = self._lines[(*path, key.value)]
                raise self.error(f"key {key.value!r} is already given in line {first}", key)
            self._lines[(*path, key.value)] = key.start_mark.line + 1
            data[key.value] = self.fill(value, (*path, key.value))
        return data

    def error(self, what: str, node: yaml.Node, *, hint: str = "") -> ConfigError:
        return ConfigError(what, where=f"{self.file}:{node.start_mark.line + 1}", hint=hint)


def read_yaml(text: str, file: str) -> Tree:
    """Read one document; `file` is its name in messages. Raises ConfigError."""
    tree = Tree(file)
    root = compose(text, file, ConfigError)
    if root is not None:
        tree.data = tree.fill(root)
    return tree


def dotted(path: Steps) -> str:
    """`scrape_configs[0].basic_auth`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")
