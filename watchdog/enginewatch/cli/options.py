"""Options that several commands take, and how their values are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Final

import typer

from enginewatch.errors import EnginewatchError
from enginewatch.model import Millis
from enginewatch.rulepack import rule_files
from enginewatch.units import parse_address, parse_duration

TEST_SUFFIX: Final = ".test.yml"

Rules = Annotated[
    list[Path] | None,
    typer.Option("--rules", help="Rule files, or folders of them, instead of the shipped pack."),
]


def pick_rules(given: Iterable[Path] | None) -> list[Path]:
    """The rule files meant: those given, folders searched; else the shipped ones."""
    return list(_rule_files(given)) if given else list(rule_files())


def _rule_files(given: Iterable[Path]) -> Iterator[Path]:
    for each in given:
        if each.is_dir():
            found = sorted(p for p in each.rglob("*.y*ml") if p.suffix in (".yml", ".yaml"))
            yield from (path for path in found if not path.name.endswith(TEST_SUFFIX))
        else:
            yield each


def test_files(given: Iterable[Path]) -> Iterator[Path]:
    """The rule tests meant: files as given, folders searched for `*.test.yml`."""
    for each in given:
        if each.is_dir():
            yield from sorted(each.rglob(f"*{TEST_SUFFIX}"))
        else:
            yield each


def parse_span(text: str, option: str) -> Millis:
    """A duration given to `option`. Raises EnginewatchError."""
    try:
        return parse_duration(text)
    except ValueError as failure:
        raise EnginewatchError(str(failure), where=option) from None


def address(text: str, option: str) -> tuple[str, int]:
    """`host:port` given to `option`. Raises EnginewatchError."""
    try:
        return parse_address(text)
    except ValueError as failure:
        hint = "like 127.0.0.1:9469"
        raise EnginewatchError(str(failure), where=option, hint=hint) from None
