"""YAML that people write, as nodes that know where they stood: what all its readers here share.

They differ in what they make of the nodes. Errors are of the reader's own kind.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final, TypeVar

import yaml

from enginewatch.errors import EnginewatchError

# libyaml's parser reads a pack some twenty times faster than the one in Python.
_LOADER: Final[type] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Read = TypeVar("_Read")
_NULL: Final = "tag:yaml.org,2002:null"
_MERGE: Final = "tag:yaml.org,2002:merge"


def compose(text: str, file: str, error: type[EnginewatchError]) -> yaml.Node | None:
    """The root node of the only document in `text`, None where it is empty.

    Raises `error`, with the place in `file`, when this is not YAML.
    """
    return _reading(text, file, error, lambda: yaml.compose(text, _LOADER))


def compose_all(text: str, file: str, error: type[EnginewatchError]) -> list[yaml.Node]:
    """The root nodes of all documents in `text`, empty ones left out. Raises as `compose`."""
    documents = _reading(text, file, error, lambda: list(yaml.compose_all(text, _LOADER)))
    return [node for node in documents if not is_null(node)]


def load(text: str, file: str, error: type[EnginewatchError]) -> Any:
    """The plain data of the only document in `text`. Raises as `compose`, and for a tag that is
    not known."""
    return _reading(text, file, error, lambda: yaml.load(text, _LOADER))  # noqa: S506 - a safe one


def _reading(
    text: str, file: str, error: type[EnginewatchError], read: Callable[[], _Read]
) -> _Read:
    try:
        return read()
    except yaml.reader.ReaderError as failure:
        where = place(text, failure.position, file)
        raise error(f"not YAML: {failure.reason}", where=where) from None
    except yaml.MarkedYAMLError as failure:
        mark = failure.problem_mark or failure.context_mark
        where = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else file
        reason = ", ".join(part for part in (failure.context, failure.problem) if part)
        hint = "indent with blanks, not tabs" if "'\\t'" in reason else ""
        raise error(f"not YAML: {reason}", where=where, hint=hint) from None
    except RecursionError:
        raise error("not YAML: nested too deeply", where=file) from None


def place(text: str, position: int, file: str) -> str:
    """`file:line:column` of a character of `text`."""
    before = text[:position]
    line_start = max(before.rfind("\n"), before.rfind("\r")) + 1
    line = before.replace("\r\n", "\n").replace("\r", "\n").count("\n") + 1
    return f"{file}:{line}:{position - line_start + 1}"


def pairs(node: yaml.MappingNode) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    """The pairs of a mapping, then those of `<<: *anchor` that it does not have itself.

    A `<<` that names no mapping is left as it stands (`is_merge`).
    """
    own = [(key, value) for key, value in node.value if not is_merge(key)]
    yield from own
    taken = {key.value for key, _ in own if isinstance(key, yaml.ScalarNode)}
    for key, value in node.value:
        if not is_merge(key):
            continue
        for source in value.value if isinstance(value, yaml.SequenceNode) else [value]:
            if not isinstance(source, yaml.MappingNode):
                yield key, source
                continue
            for pair in source.value:
                if isinstance(pair[0], yaml.ScalarNode) and pair[0].value not in taken:
                    taken.add(pair[0].value)
                    yield pair


def is_merge(node: yaml.Node) -> bool:
    return bool(node.tag == _MERGE)


def is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == _NULL


def closest(word: str, known: Collection[str]) -> str:
    """A hint for a misspelt word: the nearest known one, or all of them."""
    near = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(sorted(known))}"
