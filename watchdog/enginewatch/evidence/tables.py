"""Tables of `rules/compat`: rows of typed columns, each row with its source.

```yaml
about: NVIDIA Xid codes and what to do about them
key: xid
columns:
  xid: int
  class: [hardware, driver, application, informational]
rows:
  - {xid: 79, class: hardware, source: N}
```
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from enginewatch.alerting.errors import RuleError
from enginewatch.alerting.yamlnodes import Document, Entry, read_text
from enginewatch.evidence.errors import SignatureError
from enginewatch.evidence.fields import TYPES, Value
from enginewatch.evidence.yamlread import ValueReader

_KEYS: Final = ("about", "key", "columns", "sources", "rows")
_SOURCE: Final = "source"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows by the text of their key column."""

    about: str
    key: str
    rows: Mapping[str, Mapping[str, Value]]


def load_table(path: Path) -> Table:
    """Raises SignatureError with every problem of the file."""
    try:
        reader = _TableReader(Document(read_text(path), str(path)))
    except RuleError as failure:
        raise SignatureError([failure]) from None
    table = reader.table()
    if reader.problems:
        raise SignatureError(reader.problems)
    return table


class _TableReader(ValueReader):
    def table(self) -> Table:
        root = self.document.root
        if root is None:
            self.problems.append(RuleError("the table is empty", where=self.document.path))
            return Table("", "", {})
        top = self.mapping(root, "a table", _KEYS)
        for name in ("key", "columns", "rows"):
            if name not in top:
                self.problem(f"the table has no {name!r}", root)
        if self.problems:
            return Table("", "", {})
        columns = self._columns(top["columns"])
        sources = self.mapping(top["sources"].value, "sources") if "sources" in top else {}
        key = self.text(top["key"].value, "key") or ""
        self.known(top["key"].value, key, columns, "key")
        about = self.text(top["about"].value, "about") or "" if "about" in top else ""
        rows: dict[str, Mapping[str, Value]] = {}
        for index, node in enumerate(self.sequence(top["rows"].value, "rows"), 1):
            row = self._row(node, f"row {index}", columns, key)
            for source in str(row.get(_SOURCE, "")).split() if sources else ():
                self.known(node, source, sources, f"row {index}: source")
            name = str(row.get(key, ""))
            if name in rows:
                self.problem(f"row {index}: {key} {name} is there already", node)
            rows[name] = row
        return Table(about, key, rows)

    def _columns(self, entry: Entry) -> dict[str, tuple[str, tuple[str, ...]]]:
        """By name: the type, and the words allowed where the column is a choice."""
        found: dict[str, tuple[str, tuple[str, ...]]] = {_SOURCE: ("string", ())}
        for name, column in self.mapping(entry.value, "columns").items():
            if isinstance(column.value, yaml.SequenceNode):
                found[name] = ("string", self.names(column, f"column {name}"))
            else:
                kind = self.text(column.value, f"column {name}") or "string"
                self.known(column.value, kind, TYPES, f"column {name}: type")
                found[name] = (kind, ())
        return found

    def _row(
        self, node: yaml.Node, what: str, columns: dict[str, tuple[str, tuple[str, ...]]], key: str
    ) -> dict[str, Value]:
        given = self.mapping(node, what, columns)
        for name in (key, _SOURCE):
            if name not in given:
                self.problem(f"{what} has no {name!r}", node)
        row: dict[str, Value] = {}
        for name, entry in given.items():
            kind, words = columns[name]
            text = self.text(entry.value, f"{what}: {name}")
            if text is None:
                continue
            if words:
                self.known(entry.value, text, words, f"{what}: {name}")
            try:
                row[name] = TYPES.get(kind, TYPES["string"])(text)
            except ValueError:
                self.problem(f"{what}: {name}: {text!r} is not of type {kind}", entry.value)
        return row
