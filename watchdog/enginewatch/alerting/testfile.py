"""Unit tests of rules, in promtool's format: what is in a file, and all that is wrong with it."""

from __future__ import annotations

import glob
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from enginewatch.alerting.errors import RuleError, RuleFileError
from enginewatch.alerting.yamlnodes import Document, Entry, Reader, read_text, written
from enginewatch.model import EMPTY_LABELS, Labels, Millis, freeze
from enginewatch.promql.ast import Expr, ValueType
from enginewatch.promql.errors import PromQLError
from enginewatch.promql.parser import parse_expr
from enginewatch.promql.seriesdesc import Value, parse_metric, parse_values
from enginewatch.units import parse_time

_FILE_KEYS: Final = (
    "rule_files",
    "evaluation_interval",
    "group_eval_order",
    "fuzzy_compare",
    "tests",
)
_GROUP_KEYS: Final = (
    "name",
    "interval",
    "start_timestamp",
    "input_series",
    "alert_rule_test",
    "promql_expr_test",
    "external_labels",
    "external_url",
)
_DEFAULT_INTERVAL: Final[Millis] = 60_000


@dataclass(frozen=True, slots=True)
class InputSeries:
    """A series and its values, one an interval from the start; None where there is none."""

    labels: Labels
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class ExpectedAlert:
    """A firing alert: all its labels, `alertname` among them, and all its annotations."""

    labels: Labels
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertCase:
    """What of one alert fires at `at`, which counts from the start."""

    at: Millis
    alertname: str
    expected: tuple[ExpectedAlert, ...]
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExprCase:
    """What an expression gives at `at`, which counts from the start."""

    at: Millis
    expr: Expr
    text: str
    expected: tuple[tuple[Labels, float], ...]
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TestGroup:
    """One story: the series, and what is true at which time. `start` is Unix time."""

    __test__ = False  # pytest takes any class of this name for a test

    name: str
    interval: Millis
    start: Millis
    series: tuple[InputSeries, ...]
    alerts: tuple[AlertCase, ...]
    exprs: tuple[ExprCase, ...]
    external_labels: Labels
    external_url: str
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TestFile:
    """`rule_files` are the paths that the patterns in the file found; `warnings` tell of those
    that found none."""

    __test__ = False

    path: str
    rule_files: tuple[str, ...]
    evaluation_interval: Millis
    group_order: tuple[str, ...]
    fuzzy: bool
    groups: tuple[TestGroup, ...]
    warnings: tuple[str, ...] = ()


def load_test_file(path: str | Path) -> TestFile:
    """Read one file. Raises RuleFileError with every problem in it."""
    try:
        document = Document(read_text(Path(path)), str(path))
    except RuleError as failure:
        raise RuleFileError([failure]) from None
    parser = _Parser(document)
    found = parser.file()
    if parser.problems:
        raise RuleFileError(parser.problems)
    return found


class _Parser(Reader):
    """Reads one document; what it returns is whole only while `problems` is empty."""

    def file(self) -> TestFile:
        root = self.document.root
        top = self.mapping(root, "a test file", _FILE_KEYS) if root is not None else {}
        interval = self._span(top, "evaluation_interval", "") or _DEFAULT_INTERVAL
        paths, warnings = self._rule_files(top)
        return TestFile(
            path=self.document.path,
            rule_files=paths,
            evaluation_interval=interval,
            group_order=self._group_order(top),
            fuzzy=self._flag(top, "fuzzy_compare"),
            groups=tuple(
                self._group(node, f"test {i}", interval)
                for i, node in enumerate(self._list(top, "tests", ""), 1)
            ),
            warnings=warnings,
        )

    def _rule_files(self, top: dict[str, Entry]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Patterns are relative to the test file."""
        paths: list[str] = []
        warnings: list[str] = []
        for node in self._list(top, "rule_files", ""):
            pattern = self.text(node, "rule_files: a pattern") or ""
            whole = str(Path(self.document.path).parent / pattern)
            found = sorted(glob.glob(whole))  # noqa: PTH207 - the pattern may be absolute
            if not found:
                warnings.append(f"{self.document.where(node)}: no file is named {pattern}")
            paths += found
        return tuple(dict.fromkeys(paths)), tuple(warnings)

    def _group_order(self, top: dict[str, Entry]) -> tuple[str, ...]:
        names: list[str] = []
        for node in self._list(top, "group_eval_order", ""):
            name = self.text(node, "group_eval_order: a name") or ""
            if name in names:
                self.problem(f"group_eval_order: {name!r} is given twice", node)
            names.append(name)
        return tuple(names)

    def _group(self, node: yaml.Node, what: str, interval: Millis) -> TestGroup:
        entries = self.mapping(node, what, _GROUP_KEYS)
        name = self._text(entries, "name", what)
        what = f"{what} ({name})" if name else what
        return TestGroup(
            name=name,
            interval=self._span(entries, "interval", what) or interval,
            start=self._start(entries, what),
            series=tuple(
                self._series(item, f"{what}: input_series {i}")
                for i, item in enumerate(self._list(entries, "input_series", what), 1)
            ),
            alerts=tuple(
                self._alert_case(item, f"{what}: alert_rule_test {i}")
                for i, item in enumerate(self._list(entries, "alert_rule_test", what), 1)
            ),
            exprs=tuple(
                case
                for i, item in enumerate(self._list(entries, "promql_expr_test", what), 1)
                for case in self._expr_case(item, f"{what}: promql_expr_test {i}")
            ),
            external_labels=Labels(self._texts(entries, "external_labels", what)),
            external_url=self._text(entries, "external_url", what),
            place=self.document.where(node),
        )

    def _start(self, entries: dict[str, Entry], what: str) -> Millis:
        text = self._text(entries, "start_timestamp", what)
        try:
            return parse_time(text) if text else 0
        except ValueError as failure:
            self.problem(f"{what}: start_timestamp: {failure}", entries["start_timestamp"].value)
            return 0

    def _series(self, node: yaml.Node, what: str) -> InputSeries:
        entries = self.mapping(node, what, ("series", "values"))
        labels, values = EMPTY_LABELS, list[Value]()
        for key in ("series", "values"):
            if key not in entries:
                self.problem(f"{what}: `{key}` is missing", node)
                continue
            text = self._text(entries, key, what)
            try:
                if key == "series":
                    labels = parse_metric(text)
                else:
                    values = parse_values(text)
            except PromQLError as failure:
                self._misread(failure, entries[key].value, f"{what}: {key}")
        return InputSeries(labels, tuple(values))

    def _alert_case(self, node: yaml.Node, what: str) -> AlertCase:
        entries = self.mapping(node, what, ("eval_time", "alertname", "exp_alerts"))
        name = self._text(entries, "alertname", what)
        if not name:
            self.problem(f"{what}: `alertname` is missing", node)
        return AlertCase(
            at=self._span(entries, "eval_time", what),
            alertname=name,
            expected=tuple(
                self._expected_alert(item, name, f"{what}: exp_alerts {i}")
                for i, item in enumerate(self._list(entries, "exp_alerts", what), 1)
            ),
            place=self.document.where(node),
        )

    def _expected_alert(self, node: yaml.Node, alertname: str, what: str) -> ExpectedAlert:
        entries = self.mapping(node, what, ("exp_labels", "exp_annotations"))
        labels = self._texts(entries, "exp_labels", what)
        # As in promtool, the name need not be repeated, and repeating it wrongly has no effect.
        return ExpectedAlert(
            Labels(labels | {"alertname": alertname}),
            freeze(self._texts(entries, "exp_annotations", what)),
        )

    def _expr_case(self, node: yaml.Node, what: str) -> list[ExprCase]:
        entries = self.mapping(node, what, ("expr", "eval_time", "exp_samples"))
        at = self._span(entries, "eval_time", what)
        samples = tuple(
            self._sample(item, f"{what}: exp_samples {i}")
            for i, item in enumerate(self._list(entries, "exp_samples", what), 1)
        )
        text = self._text(entries, "expr", what).strip()
        if not text:
            self.problem(f"{what}: `expr` is missing", node)
            return []
        value = entries["expr"].value
        try:
            expr = parse_expr(text)
        except PromQLError as failure:
            self._misread(failure, value, f"{what}: expr")
            return []
        if expr.type not in (ValueType.VECTOR, ValueType.SCALAR):
            hint = "a test needs an instant vector or a scalar"
            self.problem(f"{what}: the expression is a {expr.type.value}", value, hint=hint)
        place = self.document.where(node)
        return [ExprCase(at=at, expr=expr, text=text, expected=samples, place=place)]

    def _sample(self, node: yaml.Node, what: str) -> tuple[Labels, float]:
        entries = self.mapping(node, what, ("labels", "value", "histogram"))
        if "histogram" in entries:
            self.problem(f"{what}: native histograms are not supported", entries["histogram"].key)
        labels = EMPTY_LABELS
        try:
            labels = parse_metric(self._text(entries, "labels", what) or "{}")
        except PromQLError as failure:
            self._misread(failure, entries["labels"].value, f"{what}: labels")
        value = self._text(entries, "value", what) or "0"
        try:
            return labels, _number(value)
        except ValueError:
            hint = "write numbers as 1.5, 1e3, .inf, -.inf or .nan"
            self.problem(f"{what}: {value!r} is not a number", entries["value"].value, hint=hint)
            return labels, math.nan

    def _misread(self, failure: PromQLError, node: yaml.Node, what: str) -> None:
        where = self.document.where_in(node, failure.line, failure.column)
        self.problems.append(RuleError(f"{what}: {failure.what}", where=where, hint=failure.hint))

    def _list(self, entries: dict[str, Entry], key: str, what: str) -> list[yaml.Node]:
        return self.sequence(entries[key].value, _named(what, key)) if key in entries else []

    def _span(self, entries: dict[str, Entry], key: str, what: str) -> Millis:
        return self.duration(entries[key].value, _named(what, key)) if key in entries else 0

    def _text(self, entries: dict[str, Entry], key: str, what: str) -> str:
        return (self.text(entries[key].value, _named(what, key)) or "") if key in entries else ""

    def _flag(self, entries: dict[str, Entry], key: str) -> bool:
        text = self._text(entries, key, "")
        if text not in ("", "true", "false"):
            self.problem(f"{key} must be true or false, not {text!r}", entries[key].value)
        return text == "true"

    def _texts(self, entries: dict[str, Entry], key: str, what: str) -> dict[str, str]:
        if key not in entries:
            return {}
        named = _named(what, key)
        found = self.mapping(entries[key].value, named).items()
        for name, item in found:
            self.text(item.value, f"{named}: {name}")
        return {
            name: written(item.value)
            for name, item in found
            if isinstance(item.value, yaml.ScalarNode)
        }


def _named(what: str, key: str) -> str:
    return f"{what}: {key}" if what else key


def _number(text: str) -> float:
    """A number as YAML writes it; `1_000` and ` 1`, which Python would take, are none."""
    special = {".nan": math.nan, ".inf": math.inf, "+.inf": math.inf, "-.inf": -math.inf}
    if text.lower() in special:
        return special[text.lower()]
    if not text.isascii() or not set(text.lower()) <= set("0123456789+-.e"):
        raise ValueError(text)
    return float(text)
