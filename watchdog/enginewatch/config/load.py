"""Reads a configuration, and says everything that is wrong with it, line by line."""

from __future__ import annotations

import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar, Union, get_args, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from enginewatch.config.errors import ConfigError, ConfigFileError
from enginewatch.config.root import Config
from enginewatch.config.section import Section, read_text
from enginewatch.config.tree import Steps, Tree, read_yaml
from enginewatch.yamltext import closest

T = TypeVar("T")

_SAID: Final = {
    "missing": "is missing",
    "bool_parsing": "must be true or false, not {input}",
    "int_parsing": "must be a whole number, not {input}",
    "string_type": "must be a text, not {input}",
    "tuple_type": "must be a list, not {input}",
    "list_type": "must be a list, not {input}",
    "dict_type": "must be a mapping, not {input}",
    "model_type": "must be a mapping, not {input}",
    "path_type": "must be a path, not {input}",
    "string_too_short": "must not be empty",
    "greater_than_equal": "must be 0 or more, not {input}",
    "literal_error": "must be {expected}, not {input}",
}


def load_config(path: Path | str) -> Config:
    """Read `enginewatch.yml`. Raises ConfigError that names file, line and key of each problem.

    Relative paths in it start at its folder. Secrets are not read yet.
    """
    path = Path(path)
    return parse_config(read_text(path, "the configuration"), path)


def parse_config(text: str, path: Path) -> Config:
    """As `load_config`, of a text; `path` is where it is, or would be."""
    tree = read_yaml(text, str(path))
    if not isinstance(tree.data, dict | None):
        raise ConfigError("not a mapping", where=str(path), hint="it has keys like scrape_configs")
    return validated(Config, tree, base=path.parent)


def validated(kind: type[T], tree: Tree, *, base: Path) -> T:
    """A document as a `kind`: a section, or a list of sections. Raises ConfigFileError."""
    try:
        return TypeAdapter(kind).validate_python(tree.data, context={"base": base})
    except ValidationError as failure:
        found = {_problem(kind, tree, error): None for error in failure.errors()}
        found = dict(sorted(found.items(), key=lambda item: item[0][0]))
        raise ConfigFileError(
            ConfigError(what, where=tree.where(path), hint=hint) for _, path, what, hint in found
        ) from None


def _problem(kind: Any, tree: Tree, error: ErrorDetails) -> tuple[int, Steps, str, str]:
    """An error of pydantic as (line, path, what is wrong, what would be right)."""
    path: Steps = error["loc"]
    context = error.get("ctx", {})
    hint = ""
    if error["type"] == "fault":
        path += tuple(context["at"])
        what, hint = context["what"], context["hint"]
    elif error["type"] == "extra_forbidden":
        what, hint = "unknown key", _advice(str(path[-1]), _section_at(kind, path[:-1]))
    elif error["type"] == "value_error":
        what = str(context["error"])
    else:
        said = _SAID.get(error["type"], error["msg"].replace("{", "{{").replace("}", "}}"))
        what = said.format(input=_shown(error["input"]), expected=context.get("expected"))
    return tree.line(path), path, what, hint


def _section_at(kind: Any, path: Steps) -> type[Section] | None:
    """The section that is expected at a path."""
    for step in path:
        kind = _plain(kind)
        if isinstance(kind, type) and issubclass(kind, Section):
            fields = {info.alias or name: info for name, info in kind.model_fields.items()}
            if step not in fields:
                return None
            kind = fields[str(step)].annotation
        else:
            kind = next((arg for arg in reversed(get_args(kind)) if arg is not Ellipsis), None)
    kind = _plain(kind)
    return kind if isinstance(kind, type) and issubclass(kind, Section) else None


def _plain(kind: Any) -> Any:
    """The type without `| None`."""
    if get_origin(kind) in (Union, types.UnionType):
        return next(arg for arg in get_args(kind) if arg is not type(None))
    return kind


def _advice(key: str, section: type[Section] | None) -> str:
    """What to write instead of an unknown key."""
    if section is None:
        return ""
    if key in section.elsewhere:
        return section.elsewhere[key]
    known = [info.alias or name for name, info in section.model_fields.items()]
    return closest(key, known)


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return "a mapping"
    return "a list" if isinstance(value, list | tuple) else repr(value)
