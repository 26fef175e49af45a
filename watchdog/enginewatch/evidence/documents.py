"""JSON documents as data: which keys tell the kind, which values are fields, which become samples.

`rules/signatures/documents.yml` describes configurations, statistics and the
context that a user adds; what they mean together is judged by rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from enginewatch.alerting.errors import RuleError
from enginewatch.alerting.yamlnodes import Document as YamlDocument
from enginewatch.alerting.yamlnodes import Entry, read_text
from enginewatch.evidence.errors import SignatureError
from enginewatch.evidence.expressions import Expression
from enginewatch.evidence.fields import TYPES, Value
from enginewatch.evidence.pack import DOCUMENT_FILE, load_verdicts
from enginewatch.evidence.parse import SignatureParser
from enginewatch.evidence.signatures import Series
from enginewatch.model import Labels, Sample
from enginewatch.rulepack import rules_path

CONTEXT: Final = "context"
"""The id of the kind that describes the context file; no document is ever taken for it."""

_KEYS: Final = ("id", "about", "has", "fields", "derived", "series", "feeds", "source")
_FIELD_KEYS: Final = ("at", "type")
_MISSING: Final = object()


@dataclass(frozen=True, slots=True)
class PathField:
    name: str
    path: tuple[str, ...]
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentKind:
    """`has` are the paths that must all be there; `feeds` the verdicts that take the fields."""

    id: str
    has: tuple[tuple[str, ...], ...]
    fields: tuple[PathField, ...]
    derived: Mapping[str, Value | Expression]
    series: tuple[Series, ...]
    feeds: frozenset[str]

    def fits(self, value: Any) -> bool:
        return bool(self.has) and all(_at(value, path) is not _MISSING for path in self.has)

    def read(self, value: Any) -> dict[str, Value]:
        """The fields that the document has, typed as it writes them."""
        found: dict[str, Value] = {}
        for field in self.fields:
            raw = _at(value, field.path)
            if raw is _MISSING or raw is None or isinstance(raw, dict | list):
                continue
            try:
                found[field.name] = raw if isinstance(raw, bool) else TYPES[field.type](str(raw))
            except ValueError:
                continue
        return found

    def samples(self, fields: Mapping[str, Value]) -> Iterator[Sample]:
        """One for each series whose value and labels the document has."""
        for series in self.series:
            value = _number(
                fields.get(series.value) if isinstance(series.value, str) else series.value
            )
            labels = {name: fields.get(field) for name, field in series.labels.items()}
            if value is not None and None not in labels.values():
                given = {name: str(text) for name, text in labels.items()}
                yield Sample(Labels(given, __name__=series.name), value)


def _number(value: Value) -> float | None:
    try:
        return float(value) if isinstance(value, str | int | float) else None
    except ValueError:
        return None


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            return _MISSING
        value = value[key]
    return value


@cache
def shipped_kinds() -> tuple[DocumentKind, ...]:
    return load_kinds(rules_path())


def load_kinds(root: Path) -> tuple[DocumentKind, ...]:
    """The kinds of documents under a folder of rules. Raises SignatureError with every problem."""
    path = root / "signatures" / DOCUMENT_FILE
    try:
        document = YamlDocument(read_text(path), str(path))
    except RuleError as failure:
        raise SignatureError([failure]) from None
    reader = _KindReader(document, {}, frozenset(load_verdicts(root)))
    kinds = tuple(reader.kinds())
    if reader.problems:
        raise SignatureError(reader.problems)
    return kinds


class _KindReader(SignatureParser):
    def kinds(self) -> Iterator[DocumentKind]:
        root = self.document.root
        if root is None:
            return
        top = self.mapping(root, "the file of documents", ("documents",))
        if "documents" not in top:
            return
        for index, node in enumerate(self.sequence(top["documents"].value, "documents"), 1):
            given = self.mapping(node, f"document {index}", _KEYS)
            name = self.required(given, "id", f"document {index}", node)
            what = f"document {name!r}"
            self.sources(given, what, node)
            fields = tuple(self._paths(given, what))
            known = [field.name for field in fields]
            has = self.names(given.get("has"), f"{what}: has")
            if not has and name != CONTEXT:
                self.problem(f"{what} does not say which keys tell it (`has`)", node)
            yield DocumentKind(
                id=name,
                has=tuple(tuple(path.split(".")) for path in has),
                fields=fields,
                derived=self.derived(given.get("derived"), what),
                series=tuple(self.series(given, what, known)),
                feeds=frozenset(self.verdict_names(given, "feeds", what)),
            )

    def _paths(self, given: dict[str, Entry], what: str) -> Iterator[PathField]:
        if "fields" not in given:
            return
        for name, entry in self.mapping(given["fields"].value, f"{what}: fields").items():
            place = f"{what}: field {name!r}"
            if isinstance(entry.value, yaml.ScalarNode):
                yield PathField(
                    name, tuple((self.text(entry.value, place) or "").split(".")), "string"
                )
                continue
            own = self.mapping(entry.value, place, _FIELD_KEYS)
            kind = self.type(own["type"].value, place) if "type" in own else "string"
            path = self.required(own, "at", place, entry.value)
            yield PathField(name, tuple(path.split(".")), kind)
