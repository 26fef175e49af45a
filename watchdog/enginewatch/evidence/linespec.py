"""The part of a signature that is about its line: patterns, fields, tables, samples."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

import yaml

from enginewatch.alerting.yamlnodes import Document, Entry
from enginewatch.evidence.fields import COUNT, TYPES
from enginewatch.evidence.patterns import Pattern
from enginewatch.evidence.signatures import Field, Lookup, Pick, Series
from enginewatch.evidence.tables import Table
from enginewatch.evidence.yamlread import ValueReader

_FIELD_KEYS: Final = ("type", "pick", "pattern")
_SERIES_KEYS: Final = ("name", "value", "labels")


class LineReader(ValueReader):
    """`tables` are those of `rules/compat`, by their files' names."""

    def __init__(self, document: Document, tables: Mapping[str, Table]):
        super().__init__(document)
        self._tables: Final = tables

    def patterns(
        self, entries: dict[str, Entry], what: str, node: yaml.Node
    ) -> tuple[Pattern, ...]:
        if ("pattern" in entries) == ("patterns" in entries):
            self.problem(f"{what} needs one of `pattern` and `patterns`", node)
            return ()
        if "pattern" in entries:
            nodes = [entries["pattern"].value]
        else:
            nodes = self.sequence(entries["patterns"].value, f"{what}: patterns")
        found = (self.pattern(each, f"{what}: pattern") for each in nodes)
        return tuple(each for each in found if each is not None)

    def fields(self, entries: dict[str, Entry], what: str) -> dict[str, Field]:
        """By name; a plain text is the type of a field that a group of the pattern gives."""
        if "fields" not in entries:
            return {}
        found: dict[str, Field] = {}
        for name, entry in self.mapping(entries["fields"].value, f"{what}: fields").items():
            place = f"{what}: field {name!r}"
            if isinstance(entry.value, yaml.ScalarNode):
                found[name] = Field(name, self.type(entry.value, place))
            else:
                found[name] = self._field(name, entry.value, place)
        return found

    def _field(self, name: str, node: yaml.Node, what: str) -> Field:
        given = self.mapping(node, what, _FIELD_KEYS)
        kind = self.type(given["type"].value, what) if "type" in given else "string"
        pick = self.choice_of(given, "pick", Pick, what) or Pick.FIRST
        pattern = self.pattern(given["pattern"].value, what) if "pattern" in given else None
        if pattern is not None and pattern.groups != 1:
            self.problem(
                f"{what}: the pattern must have one group, not {pattern.groups}",
                given["pattern"].value,
                hint="write other parentheses as (?:…)",
            )
        if kind == COUNT and pattern is None:
            self.problem(f"{what}: a count needs a pattern of its own", node)
        return Field(name, kind, pick, pattern)

    def type(self, node: yaml.Node, what: str) -> str:
        text = self.text(node, what) or "string"
        return text if self.known(node, text, TYPES, f"{what}: type") else "string"

    def check_groups(
        self,
        entries: dict[str, Entry],
        what: str,
        patterns: tuple[Pattern, ...],
        fields: Mapping[str, Field],
    ) -> None:
        """Each named group has a type, and each field a group or a pattern of its own."""
        named = {name for pattern in patterns for name in pattern.names}
        place = entries.get("pattern") or entries.get("patterns")
        for name in sorted(named - fields.keys()):
            if place is not None:
                self.problem(
                    f"{what}: group {name!r} has no type", place.key, hint="name it under `fields`"
                )
        for name, one in fields.items():
            if one.pattern is None and name not in named:
                self.problem(
                    f"{what}: field {name!r} is in no pattern",
                    entries["fields"].key,
                    hint=f"write (?P<{name}>…) in the pattern, or give the field its own",
                )

    def lookup(
        self, entries: dict[str, Entry], what: str, fields: Mapping[str, Field]
    ) -> Lookup | None:
        if "lookup" not in entries:
            return None
        place = f"{what}: lookup"
        node = entries["lookup"].value
        given = self.mapping(node, place, ("table", "by", "shows"))
        table, by = self.text_of(given, "table", place), self.text_of(given, "by", place)
        self.known(node, by, fields, f"{place}: field")
        if not self.known(node, table, self._tables, f"{place}: table"):
            return None
        prefix = f"{by}_"
        shows = tuple(prefix + name for name in self.names(given.get("shows"), place))
        return Lookup(by=by, prefix=prefix, shows=shows, rows=self._tables[table].rows)

    def series(
        self, entries: dict[str, Entry], what: str, fields: Collection[str]
    ) -> Iterator[Series]:
        if "series" not in entries:
            return
        for node in self.sequence(entries["series"].value, f"{what}: series"):
            given = self.mapping(node, f"{what}: series", _SERIES_KEYS)
            name = self.required(given, "name", f"{what}: series", node)
            value = self.text_of(given, "value", f"{what}: series") or "1"
            labels = dict(self._labels(given, f"{what}: series {name}"))
            for field in (value, *labels.values()):
                if not _is_number(field):
                    self.known(node, field, fields, f"{what}: series {name}: field")
            yield Series(
                name=name, value=float(value) if _is_number(value) else value, labels=labels
            )

    def _labels(self, given: dict[str, Entry], what: str) -> Iterator[tuple[str, str]]:
        if "labels" in given:
            for label, entry in self.mapping(given["labels"].value, f"{what}: labels").items():
                yield label, self.text(entry.value, f"{what}: label {label}") or ""


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
