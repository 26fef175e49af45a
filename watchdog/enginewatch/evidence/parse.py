"""The text of one signature file as signatures, read strictly: every fault, each at its place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import yaml

from enginewatch.alerting.errors import RuleError
from enginewatch.alerting.yamlnodes import Entry
from enginewatch.evidence.casespec import CASE_KEYS, CaseReader
from enginewatch.evidence.signatures import FACT, Example, Phase, Signature

_NOTHING: Final = "nothing"
_AS_FACT: Final = "fact"
_OWN_KEYS: Final = (
    "id",
    "about",
    "pattern",
    "patterns",
    "fields",
    "lookup",
    "series",
    "only",
    "enters",
    "mutes",
    "thin",
    "feeds",
    "joins",
    "lead_by",
    "cases",
    "source",
    "examples",
)
_EXAMPLE_KEYS: Final = ("finds", "fields", "text")


class SignatureParser(CaseReader):
    """Reads one document; what is wrong with it is in `problems`."""

    def signatures(self) -> Iterator[Signature]:
        root = self.document.root
        if root is None:
            self.problems.append(RuleError("the file is empty", where=self.document.path))
            return
        top = self.mapping(root, "a signature file", ("signatures",))
        if "signatures" in top:
            nodes = self.sequence(top["signatures"].value, "signatures")
            for index, node in enumerate(nodes, 1):
                yield from self._signature(node, f"signature {index}")

    def _signature(self, node: yaml.Node, what: str) -> Iterator[Signature]:
        entries = self.mapping(node, what, (*_OWN_KEYS, *CASE_KEYS))
        if not isinstance(node, yaml.MappingNode):
            return
        name = self.required(entries, "id", what, node)
        what = f"signature {name!r}" if name else what
        patterns = self.patterns(entries, what, node)
        fields = self.fields(entries, what)
        self.check_groups(entries, what, patterns, fields)
        thin = self.duration(entries["thin"].value, f"{what}: thin") if "thin" in entries else 0
        yield Signature(
            id=name,
            about=self.required(entries, "about", what, node),
            patterns=patterns,
            fields=fields,
            cases=tuple(self.cases(entries, what)),
            series=tuple(self.series(entries, what, fields)),
            lookup=self.lookup(entries, what, fields),
            only=self.condition(entries, "only", what),
            enters=self.choice_of(entries, "enters", Phase, what),
            mutes=self.flag(entries["mutes"].value, what) if "mutes" in entries else False,
            thin=thin,
            feeds=frozenset(self.verdict_names(entries, "feeds", what)),
            joins=self.names(entries.get("joins"), f"{what}: joins"),
            lead_by=self.text_of(entries, "lead_by", what),
            source=self.sources(entries, what, node),
            examples=tuple(self._examples(entries, what, node)),
            file=self.document.path,
            line=node.start_mark.line + 1,
        )

    def sources(self, entries: dict[str, Entry], what: str, node: yaml.Node) -> tuple[str, ...]:
        found = self.names(entries.get("source"), f"{what}: source")
        if not found:
            hint = "an issue, a file of the program, a manual"
            self.problem(f"{what} gives no source", node, hint=hint)
        return found

    def _examples(self, entries: dict[str, Entry], what: str, node: yaml.Node) -> Iterator[Example]:
        if "examples" not in entries:
            hint = "a piece of log under `text`, and the verdict, fact or nothing that it `finds`"
            self.problem(f"{what} has no examples", node, hint=hint)
            return
        for item in self.sequence(entries["examples"].value, f"{what}: examples"):
            place = f"{what}: example"
            given = self.mapping(item, place, _EXAMPLE_KEYS)
            finds = self.required(given, "finds", place, item)
            if finds not in (_NOTHING, _AS_FACT):
                self.known(item, finds, self._verdicts, f"{place} finds")
            yield Example(
                text=self.required(given, "text", place, item),
                verdict={_NOTHING: None, _AS_FACT: FACT}.get(finds, finds),
                fields=self.constants(given.get("fields"), place),
                line=item.start_mark.line + 1,
            )
