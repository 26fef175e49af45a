"""The part of a signature that says what its line means: cases, and what is near."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import yaml

from enginewatch.alerting.yamlnodes import Document, Entry
from enginewatch.evidence.expressions import Expression
from enginewatch.evidence.fields import Value
from enginewatch.evidence.functions import FUNCTIONS
from enginewatch.evidence.linespec import LineReader
from enginewatch.evidence.signatures import Case, Confidence, Near, Phase, Severity, Signs
from enginewatch.evidence.tables import Table

CASE_KEYS: Final = (
    "verdict",
    "severity",
    "confidence",
    "phases",
    "emitters",
    "near",
    "absent",
    "where",
    "derived",
    "explains",
    "explained_by",
    "rules_out",
    "summary",
    "advice",
)
_SHARED: Final = ("severity", "confidence", "summary", "advice")
"""Keys that may stand beside `cases`, for those that don't give their own."""
_NEAR_KEYS: Final = ("seen", "before", "after", "lines")

Named = tuple[str, yaml.Node]
"""A name that must exist somewhere in the pack, and where it was used."""


class CaseReader(LineReader):
    """`verdicts` are the names that may be claimed. `references` are names to be checked later."""

    def __init__(self, document: Document, tables: Mapping[str, Table], verdicts: frozenset[str]):
        super().__init__(document, tables)
        self._verdicts: Final = verdicts
        self.references: Final[list[Named]] = []

    def cases(self, entries: dict[str, Entry], what: str) -> Iterator[Case]:
        if "cases" not in entries:
            yield self._case({k: v for k, v in entries.items() if k in CASE_KEYS}, what)
            return
        for key in CASE_KEYS:
            if key in entries and key not in _SHARED:
                self.problem(
                    f"{what}: {key!r} beside `cases`", entries[key].key, hint="move it into a case"
                )
        shared = {k: v for k, v in entries.items() if k in _SHARED}
        for index, node in enumerate(self.sequence(entries["cases"].value, f"{what}: cases"), 1):
            place = f"{what}: case {index}"
            yield self._case({**shared, **self.mapping(node, place, CASE_KEYS)}, place)

    def _case(self, given: dict[str, Entry], what: str) -> Case:
        verdict = self.text_of(given, "verdict", what)
        if verdict:
            self.known(given["verdict"].value, verdict, self._verdicts, f"{what}: verdict")
            if verdict != "benign" and "severity" not in given:
                self.problem(f"{what}: a verdict needs a severity", given["verdict"].value)
        near_before, near_after = self._near(given.get("near"), f"{what}: near")
        not_before, not_after = self._near(given.get("absent"), f"{what}: absent")
        return Case(
            verdict=verdict,
            severity=self.choice_of(given, "severity", Severity, what) or Severity.INFO,
            confidence=self.choice_of(given, "confidence", Confidence, what) or Confidence.DEFINITE,
            phases=frozenset(self._phases(given, what)),
            emitters=self.names(given.get("emitters"), f"{what}: emitters"),
            before=Signs(near_before, not_before),
            after=Signs(near_after, not_after),
            where=self.condition(given, "where", what),
            derived=self.derived(given.get("derived"), what),
            explains=frozenset(self._refer(given.get("explains"), f"{what}: explains")),
            explained_by=frozenset(self._refer(given.get("explained_by"), f"{what}: explained_by")),
            rules_out=self.verdict_names(given, "rules_out", what),
            summary=self.text_of(given, "summary", what),
            advice=self.text_of(given, "advice", what),
        )

    def _phases(self, given: dict[str, Entry], what: str) -> Iterator[Phase]:
        if "phases" not in given:
            return
        for node in self.sequence(given["phases"].value, f"{what}: phases"):
            phase = self.choice(node, Phase, f"{what}: phase")
            if phase is not None:
                yield phase

    def _near(self, entry: Entry | None, what: str) -> tuple[tuple[Near, ...], tuple[Near, ...]]:
        """The conditions on lines before and on lines after."""
        found: dict[str, list[Near]] = {"before": [], "after": []}
        if entry is not None:
            nodes = (
                entry.value.value if isinstance(entry.value, yaml.SequenceNode) else [entry.value]
            )
            for node in nodes:
                given = self.mapping(node, what, _NEAR_KEYS)
                sides = [side for side in found if side in given]
                if len(sides) != 1:
                    hint = "after: 2m, or before: any"
                    self.problem(f"{what} needs one of `before` and `after`", node, hint=hint)
                    continue
                found[sides[0]].append(self._one_near(given, sides[0], what, node))
        return tuple(found["before"]), tuple(found["after"])

    def _one_near(self, given: dict[str, Entry], side: str, what: str, node: yaml.Node) -> Near:
        seen = self._refer(given.get("seen"), f"{what}: seen")
        if not seen:
            self.problem(f"{what} must say which signatures are `seen`", node)
        lines = self.count(given["lines"].value, f"{what}: lines") if "lines" in given else None
        return Near(frozenset(seen), self.span(given[side].value, f"{what}: {side}"), lines)

    def derived(self, entry: Entry | None, what: str) -> dict[str, Value | Expression]:
        """Constants, and expressions where a text begins with `=`."""
        if entry is None:
            return {}
        found: dict[str, Value | Expression] = {}
        for name, each in self.mapping(entry.value, f"{what}: derived").items():
            place = f"{what}: derived {name!r}"
            node = each.value
            if isinstance(node, yaml.ScalarNode) and node.value.startswith("="):
                expression = self.expression(node, place, FUNCTIONS)
                if expression is not None:
                    found[name] = expression
            else:
                found[name] = self.constant(node, place)
        return found

    def condition(self, given: dict[str, Entry], key: str, what: str) -> Expression | None:
        if key not in given:
            return None
        return self.expression(given[key].value, f"{what}: {key}", FUNCTIONS)

    def _refer(self, entry: Entry | None, what: str) -> tuple[str, ...]:
        names = self.names(entry, what)
        if entry is not None:
            self.references.extend((name, entry.value) for name in names)
        return names

    def verdict_names(self, given: dict[str, Entry], key: str, what: str) -> tuple[str, ...]:
        names = self.names(given.get(key), f"{what}: {key}")
        for name in names:
            self.known(given[key].value, name, self._verdicts, f"{what}: {key}")
        return names
