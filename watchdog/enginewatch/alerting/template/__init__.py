"""The subset of Go's text/template that alert annotations and labels are written in.

Compiled when a rule file loads, expanded at each evaluation; pure, but for the
`query` it is given. Semantics are those of Prometheus' `template` package, and
promtool is the oracle of the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

from enginewatch.alerting.errors import TemplateError
from enginewatch.alerting.template import gofmt
from enginewatch.alerting.template.check import check
from enginewatch.alerting.template.expand import Expansion, ExpansionError
from enginewatch.alerting.template.lexer import Source
from enginewatch.alerting.template.nodes import (
    Block,
    Call,
    Expr,
    Literal,
    Text,
    expressions,
    reads_value,
)
from enginewatch.alerting.template.parser import parse
from enginewatch.alerting.template.values import Data, GoError, Result, Value
from enginewatch.errors import EnginewatchError
from enginewatch.model import Labels, Sample

Query: TypeAlias = Callable[[str], Iterable[tuple[Labels, float]]]
"""Evaluates PromQL text at the time of the evaluation; raises EnginewatchError."""

__all__ = ["Query", "Template", "TemplateError", "no_query"]


def no_query(text: str) -> list[tuple[Labels, float]]:
    """A `Query` for where there is nothing to ask: fails with a sentence."""
    raise EnginewatchError(f"no queries can be made here: {text}")


@dataclass(frozen=True, slots=True)
class Template:
    """A compiled template. Two templates with the same text are equal."""

    source: Source
    block: Block

    @classmethod
    def compile(cls, text: str, where: str = "") -> Template:
        """Parse and check a template.

        `where` names the file and key for messages; line and column are added.
        Raises TemplateError for what is wrong, not supported, or bound to fail.
        """
        source = Source(text, where)
        block = parse(source)
        check(source, block)
        return cls(source, block)

    @property
    def text(self) -> str:
        return self.source.text

    @property
    def is_constant(self) -> bool:
        """Whether it expands to the same text always."""
        return all(isinstance(node, Text) for node in self.block)

    def expand(
        self,
        labels: Mapping[str, str],
        value: float,
        external_labels: Mapping[str, str] | None = None,
        external_url: str = "",
        query: Query = no_query,
    ) -> str:
        """The text for one alert; `labels` are those of the sample that raised it.

        Never raises for what data can cause: as in Prometheus, the error becomes
        the text `<error expanding template: …>`, so that a broken annotation
        doesn't stop an alert.
        """
        data = Data(_labels(labels), _labels(external_labels or {}), external_url, float(value))

        def ask(text: str) -> Result:
            try:
                return [Sample(found, number) for found, number in query(text)]
            except EnginewatchError as failure:
                raise GoError(str(failure)) from None

        functions: dict[str, Callable[..., Value]] = {
            "query": ask,
            "externalURL": lambda: external_url,
            "pathPrefix": lambda: _path(external_url),
        }
        try:
            return Expansion(data, functions).run(self.block, data)
        except ExpansionError as stop:
            line, column = self.source.place(stop.at)
            return f"<error expanding template: {line}:{column}: {stop.what}>"

    def uses_value(self) -> bool:
        """Whether the text follows a measured value, or what such a value is compared with."""
        return reads_value(self.block)

    def shows_value(self) -> bool:
        """Whether a measured value stands in the text, which so changes with each evaluation.

        Such a template must not be a label: labels are an alert's identity, and
        every evaluation would raise a new alert. A comparison only changes it at times.
        """
        return reads_value(self.block, conditions=False)

    def queries(self) -> list[str]:
        """The PromQL it asks, as far as it is written out.

        A query made by `printf` from a written format is given with `x` (or 0)
        for what is filled in: enough to see which series it names.
        """
        calls = [e for e in expressions(self.block) if isinstance(e, Call) and e.name == "query"]
        texts = (_literal_text(call.args[0]) for call in calls)
        return [text for text in texts if text is not None]


def _labels(given: Mapping[str, str]) -> Labels:
    return given if isinstance(given, Labels) else Labels(given)


def _path(url: str) -> str:
    try:
        return unquote(urlsplit(url).path)
    except ValueError as failure:
        raise GoError(f"the external URL: {failure}") from None


def _literal_text(expr: Expr) -> str | None:
    match expr:
        case Literal(value=str(text)):
            return text
        case Call(name="printf", args=(Literal(value=str(text)), *_)):
            return gofmt.placeholders(text)
    return None
