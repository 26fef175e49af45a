"""Prometheus rule files: what is in them, and everything that is wrong with them.

Files are read strictly. Unknown keys, repeated names, expressions and templates
that can't work are refused when the file loads, all of them at once and each at
its line and column, because a rule that can never fire looks like a healthy one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import yaml

from enginewatch.alerting.errors import RuleError, RuleFileError, TemplateError
from enginewatch.alerting.template import Template
from enginewatch.alerting.yamlnodes import Document, Entry, Reader, read_text, written
from enginewatch.model import METRIC_NAME, Millis, freeze
from enginewatch.promql.ast import Expr, ValueType
from enginewatch.promql.errors import PromQLError
from enginewatch.promql.parser import parse_expr

_METRIC_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*", re.ASCII)
_LABEL_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)

_FILE_KEYS: Final = ("groups",)
_GROUP_KEYS: Final = ("name", "interval", "query_offset", "limit", "labels", "rules")
_RULE_KEYS: Final = (
    "record",
    "alert",
    "expr",
    "for",
    "keep_firing_for",
    "labels",
    "annotations",
)
_ALERT_ONLY: Final = ("for", "keep_firing_for", "annotations")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordingRule:
    """`record: expr`. An empty value in `labels` removes that label from the output."""

    name: str
    expr: Expr
    text: str
    labels: Mapping[str, str]
    file: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AlertingRule:
    """`alert: expr`. `for_` and `keep_firing_for` are 0 where not given."""

    name: str
    expr: Expr
    text: str
    for_: Millis
    keep_firing_for: Millis
    labels: Mapping[str, Template]
    annotations: Mapping[str, Template]
    file: str
    line: int

    def label(self, name: str) -> str:
        """A label as it is written in the file (`verdict`, `severity`), or `""`."""
        template = self.labels.get(name)
        return template.text if template else ""


Rule = RecordingRule | AlertingRule


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Group:
    """Rules that are evaluated one after another, at one time.

    `interval` and `query_offset` are None where the global ones are meant; `limit`
    is the most series or alerts a rule may give, 0 for no limit. The group's own
    labels are already in those of its rules.
    """

    name: str
    file: str
    rules: tuple[Rule, ...]
    interval: Millis | None = None
    query_offset: Millis | None = None
    limit: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class RuleFile:
    path: str
    groups: tuple[Group, ...]


def load_rule_file(path: str | Path) -> RuleFile:
    """Read one file. Raises RuleFileError with every problem in it."""
    return load_rule_files([path])[0]


def load_rule_files(paths: Iterable[str | Path]) -> tuple[RuleFile, ...]:
    """Read files in the order given. Raises RuleFileError with every problem in all of them."""
    files: list[RuleFile] = []
    problems: list[RuleError] = []
    for path in paths:
        try:
            files.append(parse_rule_file(read_text(Path(path)), str(path)))
        except RuleFileError as failure:
            problems += failure.problems
        except RuleError as failure:
            problems.append(failure)
    if problems:
        raise RuleFileError(problems)
    return tuple(files)


def parse_rule_file(text: str, path: str) -> RuleFile:
    """Read the text of a file that goes by the name `path`. Raises RuleFileError."""
    try:
        document = Document(text, path)
    except RuleError as failure:
        raise RuleFileError([failure]) from None
    parser = _Parser(document)
    groups = tuple(parser.groups())
    if parser.problems:
        raise RuleFileError(parser.problems)
    return RuleFile(path, groups)


class _Parser(Reader):
    """Reads one document; yields only what could be read whole, the rest is in `problems`."""

    def groups(self) -> Iterator[Group]:
        root = self.document.root
        if root is None:
            return
        top = self.mapping(root, "a rule file", _FILE_KEYS)
        names: dict[str, yaml.Node] = {}
        for node in self.sequence(top["groups"].value, "groups") if "groups" in top else ():
            yield from self._group(node, names)

    def _group(self, node: yaml.Node, names: dict[str, yaml.Node]) -> Iterator[Group]:
        entries = self.mapping(node, "a group", _GROUP_KEYS)
        if not isinstance(node, yaml.MappingNode):
            return
        name = self._given(entries, "name", "a group")
        what = f"group {name!r}"
        if name == "":
            self.problem("a group must have a name", node)
        elif name in names:
            line = names[name].start_mark.line + 1
            self.problem(f"{what}: the name is already taken in line {line}", entries["name"].value)
        elif name:
            names[name] = entries["name"].value
        labels = self._texts(entries.get("labels"), f"{what}: labels", _label_fault)
        rules = entries.get("rules")
        yield Group(
            name=name or "",
            file=self.document.path,
            rules=tuple(self._rules(rules.value, what, labels)) if rules else (),
            interval=self._interval(entries, what),
            query_offset=self._span(entries, "query_offset", what),
            limit=self.count(entries["limit"].value, f"{what}: limit") if "limit" in entries else 0,
        )

    def _interval(self, entries: dict[str, Entry], what: str) -> Millis | None:
        """Prometheus takes an interval of 0 to mean the global one."""
        return self._span(entries, "interval", what) or None

    def _span(self, entries: dict[str, Entry], key: str, what: str) -> Millis | None:
        return self.duration(entries[key].value, f"{what}: {key}") if key in entries else None

    def _rules(self, node: yaml.Node, group: str, group_labels: dict[str, Entry]) -> Iterator[Rule]:
        seen: dict[tuple[str, str, frozenset[tuple[str, str]]], int] = {}
        for index, item in enumerate(self.sequence(node, f"{group}: rules"), 1):
            entries = self.mapping(item, f"{group}: rule {index}", _RULE_KEYS)
            if not isinstance(item, yaml.MappingNode):
                continue
            kind = self._kind(item, entries, f"{group}: rule {index}")
            if not kind:
                continue
            name = self._given(entries, kind, f"{group}: rule {index}")
            if name is None:
                continue
            what = f"{kind} {name}"
            own = self._texts(entries.get("labels"), f"{what}: labels", _label_fault)
            labels = group_labels | own
            line = item.start_mark.line + 1
            identity = (kind, name, frozenset((k, written(v.value)) for k, v in labels.items()))
            if identity in seen:
                self.problem(
                    f"{what}: the same name and labels as in line {seen[identity]} of this group",
                    entries[kind].value,
                    hint="give one of them another name or label, or join the expressions by `or`",
                )
            seen.setdefault(identity, line)
            read = self._recording if kind == "record" else self._alerting
            yield from read(name, what, entries, labels, line)

    def _kind(self, item: yaml.Node, entries: dict[str, Entry], what: str) -> str:
        kinds = [kind for kind in ("record", "alert") if kind in entries]
        if len(kinds) == 2:
            self.problem(f"{what} has both `record` and `alert`", item, hint="keep one of them")
        elif not kinds:
            hint = "a rule has a `record` name or an `alert` name"
            self.problem(f"{what} has neither `record` nor `alert`", item, hint=hint)
        return kinds[0] if len(kinds) == 1 else ""

    def _recording(
        self, name: str, what: str, entries: dict[str, Entry], labels: dict[str, Entry], line: int
    ) -> Iterator[RecordingRule]:
        if not _METRIC_NAME.fullmatch(name):
            self.problem(
                f"{what}: not a metric name",
                entries["record"].value,
                hint="e.g. engine:what_unit:op",
            )
        for key in _ALERT_ONLY:
            if key in entries:
                self.problem(f"{what}: a recording rule can't have {key!r}", entries[key].key)
        for expr, text in self._expr(entries, what):
            yield RecordingRule(
                name=name,
                expr=expr,
                text=text,
                labels=freeze({label: written(entry.value) for label, entry in labels.items()}),
                file=self.document.path,
                line=line,
            )

    def _alerting(
        self, name: str, what: str, entries: dict[str, Entry], labels: dict[str, Entry], line: int
    ) -> Iterator[AlertingRule]:
        if not name:
            self.problem("an alert must have a name", entries["alert"].value)
        notes = self._texts(entries.get("annotations"), f"{what}: annotations", _annotation_fault)
        compiled = self._templates(labels, f"{what}: label")
        for label, template in compiled.items():
            if template.shows_value():
                self.problem(
                    f"{what}: label {label!r} shows the measured value: each would be an alert",
                    labels[label].value,
                    hint="show it in an annotation; a label may compare it, {{ if gt $value 9.0 }}",
                )
        annotations = self._templates(notes, f"{what}: annotation")
        hold = self._span(entries, "for", what) or 0
        keep_firing = self._span(entries, "keep_firing_for", what) or 0
        for expr, text in self._expr(entries, what):
            yield AlertingRule(
                name=name,
                expr=expr,
                text=text,
                for_=hold,
                keep_firing_for=keep_firing,
                labels=compiled,
                annotations=annotations,
                file=self.document.path,
                line=line,
            )

    def _expr(self, entries: dict[str, Entry], what: str) -> Iterator[tuple[Expr, str]]:
        """The parsed expression and its text, or nothing and a problem."""
        text = self._given(entries, "expr", what)
        if text is None:
            return
        if not text.strip():
            node = entries["expr"].value if "expr" in entries else _first(entries)
            self.problem(f"{what}: `expr` is missing or empty", node)
            return
        node = entries["expr"].value
        try:
            expr = parse_expr(text)
        except PromQLError as failure:
            where = self.document.where_in(node, failure.line, failure.column)
            self.problems.append(
                RuleError(f"{what}: {failure.what}", where=where, hint=failure.hint)
            )
            return
        if expr.type not in (ValueType.VECTOR, ValueType.SCALAR):
            self.problem(
                f"{what}: the expression is a {expr.type.value}",
                node,
                hint="a rule needs an instant vector or a scalar",
            )
            return
        yield expr, text.strip()

    def _templates(self, entries: dict[str, Entry], what: str) -> Mapping[str, Template]:
        templates: dict[str, Template] = {}
        for name, entry in entries.items():
            try:
                templates[name] = Template.compile(written(entry.value), "")
            except TemplateError as failure:
                where = self.document.where_in(entry.value, failure.line, failure.column)
                fault = RuleError(
                    f"{what} {name!r}: {failure.what}", where=where, hint=failure.hint
                )
                self.problems.append(fault)
        return MappingProxyType(templates)

    def _texts(
        self, entry: Entry | None, what: str, fault: Callable[[str], str]
    ) -> dict[str, Entry]:
        """A mapping of names to texts; `fault` says what is wrong with a name, if anything."""
        if entry is None:
            return {}
        good: dict[str, Entry] = {}
        for name, item in self.mapping(entry.value, what).items():
            reason = fault(name)
            if reason:
                self.problem(f"{what}: {name!r} {reason}", item.key)
            elif self.text(item.value, f"{what}: {name}") is not None:
                good[name] = item
        return good

    def _given(self, entries: dict[str, Entry], key: str, what: str) -> str | None:
        """The text under `key`, empty where there is none; None if it is no text, which is told."""
        return self.text(entries[key].value, f"{what}: {key}") if key in entries else ""


def _first(entries: dict[str, Entry]) -> yaml.Node:
    return next(iter(entries.values())).key


def _label_fault(name: str) -> str:
    if name == METRIC_NAME:
        return "can't be set by a rule; `record` names the series"
    return "" if _LABEL_NAME.fullmatch(name) else "is not a label name: letters, digits and _"


def _annotation_fault(name: str) -> str:
    return "" if _LABEL_NAME.fullmatch(name) else "is not a name: letters, digits and _"
