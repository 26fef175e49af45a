"""A report in each of the forms that people and pipelines read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from enginewatch.preflight.outcome import Report
from enginewatch.preflight.report import github, json, junit, sarif, table

FORMATS: Final[Mapping[str, Callable[[Report], str]]] = {
    "table": table.render,
    "json": json.render,
    "junit": junit.render,
    "sarif": sarif.render,
    "github": github.render,
}
"""By the value of `--format`."""
