"""What an alert stands on: its expression, the rules that feed it, the raw series at the bottom."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from enginewatch import rulepack
from enginewatch.alerting.errors import RuleError
from enginewatch.alerting.rules import AlertingRule, RecordingRule, Rule
from enginewatch.alerting.trace import RUNTIME, SCRAPE_SERIES, TOLD_BY_ABSENCE, Tracer
from enginewatch.promql.check import names, selectors
from enginewatch.units import format_duration
from enginewatch.yamltext import closest


@dataclass(frozen=True, slots=True)
class Feed:
    """A series that an expression reads: recorded by `rule`, or raw when that is None."""

    name: str
    rule: RecordingRule | None = None
    feeds: tuple[Feed, ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    rule: AlertingRule
    feeds: tuple[Feed, ...]
    runbook: Path | None


def explain(tracer: Tracer, alert: str, root: Path | None = None) -> tuple[Explanation, ...]:
    """One explanation for each rule of that name, its runbook looked up in the pack at `root`.

    Raises RuleError when no rule has the name.
    """
    rules = [rule for rule in tracer.alerts if rule.name == alert]
    if not rules:
        known = {rule.name for rule in tracer.alerts}
        raise RuleError(f"there is no alert {alert!r}", hint=closest(alert, known))
    return tuple(
        Explanation(
            rule,
            tuple(_feeds(tracer, rule, frozenset({rule}))),
            rulepack.runbook(rule.name, rule.label("verdict"), root),
        )
        for rule in rules
    )


def _feeds(tracer: Tracer, rule: Rule, above: frozenset[Rule]) -> Iterator[Feed]:
    read = {name for each in selectors(rule.expr) for name in names(each.selector) or ("{…}",)}
    for name in sorted(read):
        recorders = tracer.recorders(name)
        if not recorders:
            yield Feed(name)
        for recorder in recorders:
            below = (
                ()
                if recorder.rule in above
                else _feeds(tracer, recorder.rule, above | {recorder.rule})
            )
            yield Feed(name, recorder.rule, tuple(below))


def describe(explanation: Explanation) -> Iterator[str]:
    """The explanation as lines of text."""
    rule = explanation.rule
    yield f"alert {rule.name}  {rule.file}:{rule.line}"
    for name, template in rule.labels.items():
        yield f"  {name}: {template.text}"
    if rule.for_:
        yield f"  for: {format_duration(rule.for_)}"
    if rule.keep_firing_for:
        yield f"  keep_firing_for: {format_duration(rule.keep_firing_for)}"
    yield "expression"
    yield from (f"  {line}" for line in rule.text.splitlines())
    yield "fed by"
    for feed in explanation.feeds:
        yield from _describe_feed(feed, "  ")
    yield f"runbook: {explanation.runbook or 'none'}"


def _describe_feed(feed: Feed, indent: str) -> Iterator[str]:
    if feed.rule is None:
        yield f"{indent}{feed.name}{_nature(feed.name)}"
        return
    runtime = feed.rule.labels.get(RUNTIME, "")
    told = f"{feed.name} [{runtime}]" if runtime else feed.name
    yield f"{indent}{told}  {feed.rule.file}:{feed.rule.line}"
    for below in feed.feeds:
        yield from _describe_feed(below, indent + "  ")


def _nature(name: str) -> str:
    if name in SCRAPE_SERIES:
        return "  (the scraper's own)"
    return "  (enginewatch's own)" if name in TOLD_BY_ABSENCE else ""
